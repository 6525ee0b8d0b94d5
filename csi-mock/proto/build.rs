//! Compiles the protobuf definitions with protox: no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["csi.proto", "registration.proto"], ["proto"])?;
    // BTreeMap, because the order of maps can be observed on the wire.
    tonic_prost_build::configure().btree_map(".").build_transport(false).compile_fds(files)?;
    Ok(())
}
