//! Content negotiation: which of an object's representations a request's Accept header asks for (R27).

/// The form in which objects are answered. All forms are JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object or list itself.
    Object,
    /// A `meta.k8s.io/v1` Table, as kubectl prints it.
    Table,
    /// Only apiVersion, kind and metadata: `PartialObjectMetadata` or `PartialObjectMetadataList`.
    PartialMetadata,
}

/// How much of each object a Table row carries (query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Cells only.
    None,
    /// A `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; empty means the default.
    ///
    /// # Errors
    /// The Status message for a value that does not exist.
    pub fn parse(value: &str) -> Result<Self, String> {
        match value {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(format!("unrecognized includeObject value: {other:?}")),
        }
    }
}

/// only the following media types are accepted: application/json, application/json;as=Table;g=meta.k8s.io;v=v1, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct NotAcceptable;

/// One media range of an Accept header.
#[derive(Debug)]
pub(crate) struct Clause<'a> {
    pub(crate) media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| *v)
    }

    /// Whether JSON satisfies the range.
    pub(crate) fn takes_json(&self) -> bool {
        ["application/json", "application/*", "*/*"].iter().any(|m| self.media.eq_ignore_ascii_case(m))
    }
}

/// The ranges of an Accept header: higher `q` first, else in their order; `q=0` left out; empty means anything.
pub(crate) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    let mut weighted: Vec<(u32, Clause<'_>)> = accept
        .split(',')
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().filter(|m| !m.is_empty())?;
            let parameters: Vec<_> =
                parts.filter_map(|p| p.split_once('=')).map(|(n, v)| (n.trim(), v.trim().trim_matches('"'))).collect();
            let clause = Clause { media, parameters };
            let q = clause.parameter("q").map_or(1.0, |q| q.parse::<f32>().unwrap_or(1.0));
            (q > 0.0).then_some(((q.min(1.0) * 1000.0) as u32, clause))
        })
        .collect();
    weighted.sort_by_key(|(q, _)| std::cmp::Reverse(*q));
    weighted.into_iter().map(|(_, clause)| clause).collect()
}

/// Chooses the first range that can be served. A protobuf range is passed over when a later one takes JSON: clients
/// pick their decoder by the answer's Content-Type.
///
/// # Errors
/// When no range can be served; answered as 406.
pub fn accept(header: Option<&str>) -> Result<Representation, NotAcceptable> {
    clauses(header.unwrap_or_default()).iter().find_map(representation).ok_or(NotAcceptable)
}

fn representation(clause: &Clause<'_>) -> Option<Representation> {
    if !clause.takes_json() {
        return None;
    }
    let Some(wanted) = clause.parameter("as") else { return Some(Representation::Object) };
    let meta = clause.parameter("g") == Some("meta.k8s.io") && matches!(clause.parameter("v"), Some("v1" | "v1beta1"));
    match wanted {
        "Table" if meta => Some(Representation::Table),
        "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => Some(Representation::PartialMetadata),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_is_json(None, Ok(Representation::Object))]
    #[case::curl(Some("*/*"), Ok(Representation::Object))]
    #[case::client_go_protobuf(
        Some("application/vnd.kubernetes.protobuf,application/json"),
        Ok(Representation::Object)
    )]
    #[case::kubectl_get(
        Some(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
        ),
        Ok(Representation::Table)
    )]
    #[case::metadata_informer(
        Some(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        ),
        Ok(Representation::PartialMetadata)
    )]
    #[case::watch_stream(Some("application/json;stream=watch"), Ok(Representation::Object))]
    #[case::unknown_projection_then_json(
        Some("application/json;as=Foo;g=meta.k8s.io;v=v1,application/json"),
        Ok(Representation::Object)
    )]
    #[case::quality_decides(
        Some("application/json;q=0.2,application/json;as=Table;g=meta.k8s.io;v=v1;q=0.9"),
        Ok(Representation::Table)
    )]
    #[case::unknown_projection(Some("application/json;as=Foo;g=meta.k8s.io;v=v1"), Err(NotAcceptable))]
    #[case::protobuf_only(Some("application/vnd.kubernetes.protobuf"), Err(NotAcceptable))]
    #[case::cbor(Some("application/cbor"), Err(NotAcceptable))]
    #[case::refused_json(Some("application/json;q=0"), Err(NotAcceptable))]
    fn the_first_servable_range_wins(
        #[case] header: Option<&str>,
        #[case] wanted: Result<Representation, NotAcceptable>,
    ) {
        assert_eq!(accept(header), wanted);
    }
}
