# One front door: each recipe is a command of CONTRIBUTING.md, where the table says what it needs.

# Lists the recipes.
_list:
    @just --list --unsorted

# Format; lints and unit tests of the crates that differ from BASE; generated files
check base="HEAD":
    .ci/check {{base}}

# All tests; those that lack root or a program are skipped
test *arguments:
    cargo test --workspace {{arguments}}

# The CI run: format, lints, all tests; installs packages
ci:
    .ci/run

# Long parts, or the named ones
nightly *parts:
    .ci/nightly {{parts}}

# A scenario, in virtual time
run scenario="scenarios/first-volume.yaml" *arguments:
    cargo run -p harness -- run {{scenario}} {{arguments}}

# Generated files
generate:
    cargo run -p xtask -- docs
    cargo run -p xtask -- kinds

# The book of docs/
book *arguments:
    .ci/book {{arguments}}

# The files of a release, from a clean checkout
release:
    .ci/release

# The container image, from a release build
image:
    cargo build --locked --release -p harness --bin mooring
    cargo run --locked -p xtask -- image
