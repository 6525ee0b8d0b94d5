//! Compiles the protobuf definitions with protox: no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["csi.proto", "registration.proto"], ["proto"])?;
    // BTreeMap, because the order of maps is visible on the wire.
    let mut config = tonic_prost_build::configure()
        .btree_map(".")
        .build_transport(false)
        .codec_path("crate::codec::Compact")
        .type_attribute(".csi.v1", "#[derive(serde::Serialize)]")
        .enum_attribute(".csi.v1", "#[serde(rename_all = \"snake_case\")]");
    for (field, function) in [
        ("secrets", "secrets"),
        ("volume_context", "context"),
        ("creation_time", "time"),
        ("AccessMode.mode", "access_mode"),
    ] {
        config = config.field_attribute(field, format!("#[serde(serialize_with = \"crate::shown::{function}\")]"));
    }
    config.compile_fds(files)?;
    Ok(())
}
