//! Compiles the protobuf definitions with protox: no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["csi.proto", "registration.proto"], ["proto"])?;
    // BTreeMap, because the order of maps is visible on the wire.
    let mut config = tonic_prost_build::configure()
        .btree_map(".")
        .build_transport(false)
        .codec_path("crate::codec::Compact")
        .type_attribute(".csi.v1", "#[derive(serde::Deserialize, serde::Serialize)]")
        .message_attribute(".csi.v1", "#[serde(default, deny_unknown_fields)]")
        .enum_attribute(".csi.v1", "#[serde(rename_all = \"snake_case\")]");
    for (field, with) in [
        ("secrets", "serialize_with = \"crate::shown::secrets\""),
        ("volume_context", "serialize_with = \"crate::shown::context\""),
        ("creation_time", "with = \"crate::shown::time\""),
        ("AccessMode.mode", "with = \"crate::shown::access_mode\""),
    ] {
        config = config.field_attribute(field, format!("#[serde({with})]"));
    }
    config.compile_fds(files)?;
    Ok(())
}
