# The image of compose.yaml. Its build context is made by `cargo run -p xtask -- image`, which then builds it:
# a `mooring` that is compiled already, and the filesystem tools of Debian. Dockerfile.source compiles inside docker.
FROM scratch
COPY root/ /
# No user has a home here: what `mooring up` writes down goes where everybody may write.
ENV PATH=/usr/sbin:/usr/bin XDG_STATE_HOME=/tmp
ENTRYPOINT ["/usr/bin/mooring"]
CMD ["--help"]
