# The image of compose.yaml. Its build context is made by `cargo run -p xtask -- image`, which then builds it:
# a `mooring` that is compiled already, and the filesystem tools of Debian. Dockerfile.source compiles inside docker.
FROM scratch
COPY root/ /
ENV PATH=/usr/sbin:/usr/bin
ENTRYPOINT ["/usr/bin/mooring"]
CMD ["--help"]
