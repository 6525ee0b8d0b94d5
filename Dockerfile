# The image of compose.yaml. `cargo run -p xtask -- image` creates the build context and builds the image from a
# compiled `mooring` and Debian's filesystem tools. Dockerfile.source compiles inside docker.
FROM scratch
COPY root/ /
# Users have no home here: `mooring up` writes to a directory that all users can write to.
ENV PATH=/usr/sbin:/usr/bin XDG_STATE_HOME=/tmp
ENTRYPOINT ["/usr/bin/mooring"]
CMD ["--help"]
