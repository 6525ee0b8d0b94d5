//! Content negotiation: representation and encoding of an answer by the request's Accept header.

use super::protobuf;

/// Encoding of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// Representation of objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object or list itself.
    Object,
    /// A `meta.k8s.io/v1` Table, as kubectl prints it; only in JSON.
    Table,
    /// Only apiVersion, kind and metadata: `PartialObjectMetadata` or `PartialObjectMetadataList`.
    PartialMetadata,
}

/// Part of each object that a Table row carries (query parameter `includeObject`).
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
    /// Parses the query parameter; empty means the default.
    ///
    /// # Errors
    /// The Status message about an unknown value.
    pub fn parse(value: &str) -> Result<Self, String> {
        match value {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            )),
        }
    }
}

/// A failure to serve any range of an Accept header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum NotAcceptable {
    /// only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf
    Answer,
    /// only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch
    Stream,
}

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

    /// Returns true if the range includes JSON.
    pub(crate) fn takes_json(&self) -> bool {
        ["application/json", "application/*", "*/*"].iter().any(|m| self.media.eq_ignore_ascii_case(m))
    }

    /// Returns true for YAML, which is converted from JSON; streams have no YAML form.
    fn is_yaml(&self) -> bool {
        self.media.eq_ignore_ascii_case("application/yaml") && self.parameter("stream").is_none_or(str::is_empty)
    }

    /// Returns true if the answer is built as JSON, even if it is then converted to YAML.
    fn is_made_of_json(&self) -> bool {
        self.takes_json() || self.is_yaml()
    }
}

/// Returns the ranges of an Accept header: higher `q` first, otherwise in order; without those of `q=0`. An empty
/// header accepts everything.
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

/// Returns true if an Accept header prefers YAML to JSON, of the ranges that can be served.
pub fn prefers_yaml(header: &str) -> bool {
    let servable = |clause: &Clause<'_>| clause.is_made_of_json() && representation(clause).is_some();
    clauses(header).into_iter().find(servable).is_some_and(|clause| clause.is_yaml())
}

/// Chooses the first range that can be served. YAML counts as JSON.
///
/// # Errors
/// If no range can be served; answered as 406.
pub fn accept(header: Option<&str>) -> Result<(Representation, Encoding), NotAcceptable> {
    choose(header, true)
}

/// Chooses a range for custom kinds, whose objects exist in JSON only.
///
/// # Errors
/// If no range can be served; answered as 406.
pub fn accept_custom(header: Option<&str>) -> Result<(Representation, Encoding), NotAcceptable> {
    choose(header, false)
}

/// Chooses an encoding for documents that have neither a table nor partial metadata.
///
/// # Errors
/// If no range can be served; answered as 406.
pub fn accept_object(header: Option<&str>) -> Result<Encoding, NotAcceptable> {
    let wanted = clauses(header.unwrap_or_default());
    let whole = wanted.iter().filter(|clause| representation(clause) == Some(Representation::Object));
    let encoding = |clause: &Clause<'_>| {
        let message = clause.media.eq_ignore_ascii_case(protobuf::MEDIA);
        if clause.is_made_of_json() { Some(Encoding::Json) } else { message.then_some(Encoding::Protobuf) }
    };
    whole.into_iter().find_map(encoding).ok_or(NotAcceptable::Answer)
}

fn choose(header: Option<&str>, messages: bool) -> Result<(Representation, Encoding), NotAcceptable> {
    // Most clients send this header.
    if header == Some("application/json") {
        return Ok((Representation::Object, Encoding::Json));
    }
    clauses(header.unwrap_or_default())
        .iter()
        .find_map(|clause| {
            let encoding = if clause.is_made_of_json() {
                Encoding::Json
            } else if clause.media.eq_ignore_ascii_case(protobuf::MEDIA) {
                Encoding::Protobuf
            } else {
                return None;
            };
            // Tables have no protobuf message: their cells are of any type.
            representation(clause)
                .filter(|r| *r != Representation::Table || encoding == Encoding::Json)
                .filter(|r| messages || *r != Representation::Object || encoding == Encoding::Json)
                .map(|r| (r, encoding))
        })
        .ok_or(NotAcceptable::Answer)
}

fn representation(clause: &Clause<'_>) -> Option<Representation> {
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

    const PROTOBUF: Result<(Representation, Encoding), NotAcceptable> =
        Ok((Representation::Object, Encoding::Protobuf));

    fn json(representation: Representation) -> Result<(Representation, Encoding), NotAcceptable> {
        Ok((representation, Encoding::Json))
    }

    #[rstest]
    #[case::nothing_is_json(None, json(Representation::Object))]
    #[case::curl(Some("*/*"), json(Representation::Object))]
    #[case::client_go_protobuf(Some("application/vnd.kubernetes.protobuf,application/json"), PROTOBUF)]
    #[case::protobuf_watch(Some("application/vnd.kubernetes.protobuf;stream=watch"), PROTOBUF)]
    #[case::protobuf_second(Some("application/json,application/vnd.kubernetes.protobuf"), json(Representation::Object))]
    #[case::no_protobuf_table(
        Some(
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io"
        ),
        json(Representation::Table)
    )]
    #[case::kubectl_get(
        Some(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
        ),
        json(Representation::Table)
    )]
    #[case::metadata_informer(
        Some(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        ),
        Ok((Representation::PartialMetadata, Encoding::Protobuf))
    )]
    #[case::watch_stream(Some("application/json;stream=watch"), json(Representation::Object))]
    #[case::unknown_projection_then_json(
        Some("application/json;as=Foo;g=meta.k8s.io;v=v1,application/json"),
        json(Representation::Object)
    )]
    #[case::quality_decides(
        Some("application/json;q=0.2,application/json;as=Table;g=meta.k8s.io;v=v1;q=0.9"),
        json(Representation::Table)
    )]
    #[case::yaml(Some("application/yaml"), json(Representation::Object))]
    #[case::yaml_table(Some("application/yaml;as=Table;g=meta.k8s.io;v=v1"), json(Representation::Table))]
    #[case::yaml_stream(Some("application/yaml;stream=watch"), Err(NotAcceptable::Answer))]
    #[case::unknown_projection(Some("application/json;as=Foo;g=meta.k8s.io;v=v1"), Err(NotAcceptable::Answer))]
    #[case::protobuf_only(Some("application/vnd.kubernetes.protobuf"), PROTOBUF)]
    #[case::cbor(Some("application/cbor"), Err(NotAcceptable::Answer))]
    #[case::refused_json(Some("application/json;q=0"), Err(NotAcceptable::Answer))]
    fn the_first_servable_range_wins(
        #[case] header: Option<&str>,
        #[case] wanted: Result<(Representation, Encoding), NotAcceptable>,
    ) {
        assert_eq!(accept(header), wanted);
    }

    #[test]
    fn yaml_is_preferred_where_it_comes_first() {
        for (header, wanted) in [
            ("application/yaml", true),
            ("application/yaml, application/json", true),
            ("application/json, application/yaml", false),
            ("*/*, application/yaml", false),
            ("application/json;q=0.1, application/yaml;q=0.2", true),
            ("application/yaml;as=Foo, application/json", false),
            ("application/vnd.kubernetes.protobuf, application/yaml", true),
        ] {
            assert_eq!(prefers_yaml(header), wanted, "{header}");
        }
    }
}
