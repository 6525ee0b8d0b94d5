//! Requests for services that are not served. A tool sends all its services to one endpoint (`AWS_ENDPOINT_URL`), so
//! such a request is refused in its own protocol's format, and the text names the served services.

use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::services::Service;
use super::xml::Xml;

/// Format of a protocol's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// S3: an `Error` element without a namespace.
    S3,
    /// An `ErrorResponse` element in this namespace: the Query protocol, and REST with XML. If empty, derived from the
    /// name.
    Response(&'static str),
    /// `__type` and `message` as JSON; with the content type.
    Typed(&'static str),
    /// `message` as JSON, the type in a header.
    Rest,
    /// `__type` and `message` as CBOR.
    Cbor,
}

/// Signing names whose format is not evident from the request. All others with a JSON body or a path are REST.
const FORMS: &[(&str, Form)] = &[
    ("cloudformation", Form::Response("http://cloudformation.amazonaws.com/doc/2010-05-15/")),
    ("cloudfront", Form::Response("http://cloudfront.amazonaws.com/doc/2020-05-31/")),
    ("elasticache", Form::Response("http://elasticache.amazonaws.com/doc/2015-02-02/")),
    ("elasticbeanstalk", Form::Response("http://elasticbeanstalk.amazonaws.com/docs/2010-12-01/")),
    ("elasticloadbalancing", Form::Response("http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/")),
    ("iam", Form::Response("https://iam.amazonaws.com/doc/2010-05-08/")),
    ("monitoring", Form::Response("http://monitoring.amazonaws.com/doc/2010-08-01/")),
    ("rds", Form::Response("http://rds.amazonaws.com/doc/2014-10-31/")),
    ("redshift", Form::Response("http://redshift.amazonaws.com/doc/2012-12-01/")),
    ("route53", Form::Response("https://route53.amazonaws.com/doc/2013-04-01/")),
    ("s3", Form::S3),
    ("s3-outposts", Form::S3),
    ("s3express", Form::S3),
    ("ses", Form::Response("http://ses.amazonaws.com/doc/2010-12-01/")),
    ("sns", Form::Response("http://sns.amazonaws.com/doc/2010-03-31/")),
];

/// Service that is not served, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    name: String,
    form: Form,
}

/// Error in the format of another service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The content type.
    pub content_type: &'static str,
    /// Type of the error, which some protocols send in a header.
    pub error_type: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

impl Foreign {
    /// Returns the service of a request, if it is not served: from its credential scope `scope`, or from the target
    /// header of the JSON protocols.
    pub fn of(parts: &Parts, scope: Option<&str>) -> Option<Self> {
        let target = text(&parts.headers, "x-amz-target");
        let name = match (scope, target) {
            (Some(scope), _) => scope,
            (None, Some(target)) => target.split(['.', '_']).next()?,
            (None, None) => return None,
        };
        if Service::of_scope(name).is_some() {
            return None;
        }
        let content = text(&parts.headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let form = match FORMS.iter().find(|(known, _)| *known == name) {
            _ if target.is_some() && content.contains("json-1.0") => Form::Typed("application/x-amz-json-1.0"),
            _ if target.is_some() => Form::Typed("application/x-amz-json-1.1"),
            _ if text(&parts.headers, "smithy-protocol").is_some() => Form::Cbor,
            Some((_, form)) => *form,
            None if content.contains("json") || !matches!(parts.uri.path(), "" | "/") => Form::Rest,
            None => Form::Response(""),
        };
        Some(Self { name: name.to_owned(), form })
    }

    /// Returns the refusal of the request `request_id`.
    pub fn refusal(&self, request_id: &str) -> Refusal {
        let served: Vec<String> = Service::ALL.iter().map(|service| service.description()).collect();
        let text = format!(
            "The service {} is not served here. Served: {}. Point only these at this endpoint, for example with \
             AWS_ENDPOINT_URL_EC2.",
            self.name,
            served.join(", ")
        );
        let of = |status, content_type, error_type, body| Refusal { status, content_type, error_type, body };
        match self.form {
            Form::S3 => {
                let mut xml = Xml::document();
                xml.element("Error", |xml| {
                    xml.text("Code", "InvalidRequest");
                    xml.text("Message", &text);
                    xml.text("RequestId", request_id);
                    xml.text("HostId", request_id);
                });
                of(StatusCode::BAD_REQUEST, "application/xml", None, xml.finish().into_bytes())
            }
            Form::Response(namespace) => {
                let own = format!("https://{}.amazonaws.com/doc/", self.name);
                let namespace = if namespace.is_empty() { &own } else { namespace };
                let body = response(namespace, "InvalidAction", &text, request_id);
                of(StatusCode::BAD_REQUEST, "text/xml", None, body.into_bytes())
            }
            Form::Typed(content_type) => {
                let body = json!({ "__type": UNKNOWN, "message": text }).to_string();
                of(StatusCode::BAD_REQUEST, content_type, None, body.into_bytes())
            }
            Form::Rest => {
                let body = json!({ "message": text }).to_string();
                of(StatusCode::NOT_FOUND, "application/json", Some(UNKNOWN), body.into_bytes())
            }
            Form::Cbor => {
                // A map of two texts.
                let mut body = vec![0xa2];
                ["__type", UNKNOWN, "message", &text].iter().for_each(|text| cbor_text(&mut body, text));
                of(StatusCode::BAD_REQUEST, "application/cbor", None, body)
            }
        }
    }
}

/// Error type of an unknown operation.
const UNKNOWN: &str = "UnknownOperationException";

/// Encodes the error of a Query service other than EC2.
pub fn response(namespace: &str, code: &str, text: &str, request_id: &str) -> String {
    let mut xml = Xml::document();
    xml.root("ErrorResponse", namespace, |xml| {
        xml.element("Error", |xml| {
            xml.text("Type", "Sender");
            xml.text("Code", code);
            xml.text("Message", text);
        });
        xml.text("RequestId", request_id);
    });
    xml.finish()
}

/// Appends a text of less than 64 KiB (RFC 8949, major type 3).
fn cbor_text(out: &mut Vec<u8>, text: &str) {
    match u16::try_from(text.len()) {
        Ok(length) if length < 24 => out.push(0x60 | length as u8),
        length => {
            out.push(0x79);
            out.extend(length.unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    out.extend(text.bytes().take(usize::from(u16::MAX)));
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::Request;
    use rstest::rstest;

    use super::*;

    fn asked(path: &str, headers: &[(&str, &str)], scope: Option<&str>) -> Option<Foreign> {
        let request = headers.iter().fold(Request::builder().uri(path), |r, (name, value)| r.header(*name, *value));
        Foreign::of(&request.body(()).unwrap().into_parts().0, scope)
    }

    #[rstest]
    #[case("s3", "/bucket/key", &[], Form::S3)]
    #[case("iam", "/", &[], Form::Response("https://iam.amazonaws.com/doc/2010-05-08/"))]
    #[case("ssm", "/", &[("x-amz-target", "AmazonSSM.GetParameter")], Form::Typed("application/x-amz-json-1.1"))]
    #[case(
        "dynamodb",
        "/",
        &[("x-amz-target", "DynamoDB_20120810.ListTables"), ("content-type", "application/x-amz-json-1.0")],
        Form::Typed("application/x-amz-json-1.0")
    )]
    #[case("eks", "/clusters", &[], Form::Rest)]
    #[case("monitoring", "/service/x/operation/y", &[("smithy-protocol", "rpc-v2-cbor")], Form::Cbor)]
    #[case("whatever", "/", &[], Form::Response(""))]
    fn the_form_is_that_of_the_protocol(
        #[case] scope: &str,
        #[case] path: &str,
        #[case] headers: &[(&str, &str)],
        #[case] form: Form,
    ) {
        let foreign = asked(path, headers, Some(scope)).unwrap();
        assert_eq!((foreign.name.as_str(), foreign.form), (scope, form));
        let refusal = foreign.refusal("r");
        let body = String::from_utf8_lossy(&refusal.body);
        let text = format!("The service {scope} is not served here. Served: ec2, ");
        assert!(refusal.status.is_client_error() && body.contains(&text), "{body}");
    }

    #[test]
    fn services_that_are_served_are_not_foreign() {
        for scope in Service::ALL.map(Service::scope) {
            assert_eq!(asked("/", &[], Some(scope)), None);
        }
        assert_eq!(asked("/", &[], None), None);
        let target = asked("/", &[("x-amz-target", "AmazonSSM.GetParameter")], None).unwrap();
        assert_eq!(target.name, "AmazonSSM");
    }

    #[test]
    fn a_map_of_texts_is_cbor() {
        let mut out = Vec::new();
        cbor_text(&mut out, "ab");
        cbor_text(&mut out, &"x".repeat(300));
        assert_eq!(&out[..7], [0x62, b'a', b'b', 0x79, 1, 44, b'x']);
        assert_eq!(out.len(), 3 + 3 + 300);
    }
}
