//! State of volumes and instances, read through the EC2 API as any user would.

use http::Request;
use substrate::HttpService;
use substrate::body::{call, collect, full};
use substrate::json::{Map, Value};

use std::sync::Arc;

use super::call_recorder::{CALLER, CallRecorder};
use crate::scenario::predicate::{Cloud, CloudSubject, Pattern};

/// Maximum size of an answer in bytes.
const LIMIT: usize = 64 << 20;
/// Maximum depth of elements.
const DEPTH: usize = 32;

/// Client of the cloud.
#[derive(Clone)]
pub(super) struct CloudReader {
    pub(super) service: HttpService,
    pub(super) call_recorder: Arc<CallRecorder>,
}

/// Answer of the cloud.
enum Answer {
    Tree(Value),
    /// Code and message of an error.
    Error(String, String),
}

impl CloudReader {
    /// Returns true if the cloud is as expected, with a description of its state.
    ///
    /// # Errors
    /// Returns the reason if this cannot be determined.
    pub(super) async fn look(&self, wanted: &Cloud) -> Result<(bool, String), String> {
        let tree = match &wanted.of {
            CloudSubject::Volumes => Value::Array(self.all("DescribeVolumes", "volumeSet").await?),
            CloudSubject::Volume(volume) => {
                let id = match volume {
                    Pattern::Volume(object) => {
                        self.call_recorder.volume(object).ok_or_else(|| format!("{object} has no volume"))?.to_string()
                    }
                    Pattern::Word(id) | Pattern::Node(id) | Pattern::Process(id) => id.clone(),
                };
                self.volume(&id).await?
            }
            CloudSubject::Instance(node) => {
                let id = self.call_recorder.instance(node).ok_or_else(|| format!("{node} has no instance"))?;
                self.instance(&id).await?
            }
        };
        self.judge(wanted, &tree)
    }

    fn judge(&self, wanted: &Cloud, tree: &Value) -> Result<(bool, String), String> {
        let (mut holds, mut seen) = (true, Vec::new());
        if let Some(state) = &wanted.state {
            let is = tree["status"].as_str().or(tree["instanceState"]["name"].as_str()).unwrap_or_default();
            holds &= is == state;
            seen.push(format!("it is {is}"));
        }
        if let Some(nodes) = &wanted.attached {
            let all = tree["attachmentSet"].as_array().map(Vec::as_slice).unwrap_or_default();
            let of = |item: &Value| {
                let id = item["instanceId"].as_str().unwrap_or_default().to_owned();
                (self.call_recorder.node(&id).unwrap_or(id), item["status"].as_str().unwrap_or_default().to_owned())
            };
            let all: Vec<(String, String)> = all.iter().map(of).collect();
            holds &= all.len() == nodes.len()
                && all.iter().all(|(node, status)| status == "attached" && nodes.contains(node));
            let text: Vec<String> = all.iter().map(|(node, status)| format!("{status} on {node}")).collect();
            seen.push(if text.is_empty() { "it has no attachment".to_owned() } else { text.join(" and ") });
        }
        if let Some(that) = &wanted.that {
            match that.holds(tree) {
                Ok(is) => holds &= is,
                // The failure of another part of the expectation is more informative.
                Err(_) if !holds => {}
                Err(_) => return Err(that.seen(tree)),
            }
            seen.push(that.seen(tree));
        }
        Ok((holds, seen.join(", ")))
    }

    async fn volume(&self, id: &str) -> Result<Value, String> {
        match self.ask("DescribeVolumes", &[("VolumeId.1", id)]).await? {
            Answer::Tree(mut tree) => Ok(tree["volumeSet"][0].take()),
            Answer::Error(code, _) if code == "InvalidVolume.NotFound" => Ok(Value::Object(Map::of(vec![
                ("volumeId".into(), id.into()),
                ("status".into(), "deleted".into()),
                ("attachmentSet".into(), Value::Array(Vec::new())),
            ]))),
            Answer::Error(code, message) => Err(format!("{code}: {message}")),
        }
    }

    async fn instance(&self, id: &str) -> Result<Value, String> {
        match self.ask("DescribeInstances", &[("InstanceId.1", id)]).await? {
            Answer::Tree(mut tree) => Ok(tree["reservationSet"][0]["instancesSet"][0].take()),
            Answer::Error(code, message) => Err(format!("{code}: {message}")),
        }
    }

    /// Reads all items of a list, page by page.
    async fn all(&self, action: &str, set: &str) -> Result<Vec<Value>, String> {
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = [("NextToken", token.as_str())];
            let mut tree = match self.ask(action, if token.is_empty() { &[] } else { &page }).await? {
                Answer::Tree(tree) => tree,
                Answer::Error(code, message) => return Err(format!("{code}: {message}")),
            };
            if let Value::Array(items) = tree[set].take() {
                all.extend(items);
            }
            match tree["nextToken"].as_str() {
                Some(next) if !next.is_empty() && next != token => next.clone_into(&mut token),
                _ => return Ok(all),
            }
        }
    }

    async fn ask(&self, action: &str, form: &[(&str, &str)]) -> Result<Answer, String> {
        // Ids and tokens consist of characters that need no escaping in forms.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        let escape = |text: &str| -> String {
            text.bytes()
                .map(|b| if plain(b.into()) { char::from(b).to_string() } else { format!("%{b:02X}") })
                .collect()
        };
        let pairs = form.iter().map(|(key, value)| format!("&{key}={}", escape(value)));
        let body = format!("Action={action}&Version=2016-11-15{}", pairs.collect::<String>());
        let signature = format!(
            "AWS4-HMAC-SHA256 Credential={CALLER}/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"
        );
        let request = Request::post("/")
            .header("host", "localhost")
            .header("user-agent", crate::spec::names::RUNNER)
            .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
            .header("authorization", signature)
            .body(full(body))
            .map_err(|e| e.to_string())?;
        let failed = |e: substrate::BoxError| format!("the cloud does not answer: {e}");
        let response = call(self.service.clone(), request).await.map_err(failed)?;
        let status = response.status();
        let bytes = collect(response.into_body(), LIMIT).await.map_err(failed)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| format!("the cloud's answer is not text: {e}"))?;
        if !status.is_success() && text.is_empty() {
            return Err(format!("the cloud answers {status}"));
        }
        let mut tree = tree(text)?;
        if status.is_success() {
            return Ok(Answer::Tree(tree));
        }
        let mut error = tree["Errors"]["Error"].take();
        let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let (code, message) = (word(error["Code"].take()), word(error["Message"].take()));
        Ok(Answer::Error(code, message))
    }
}

/// Converts the root element of an EC2 API document to a tree: lists become arrays; whole numbers, `true` and `false`
/// become numbers and booleans, except in tags, which are texts.
pub(super) fn tree(text: &str) -> Result<Value, String> {
    use quick_xml::events::Event;

    /// An element that is not yet closed.
    struct Open {
        name: String,
        members: Vec<(String, Value)>,
        text: String,
    }
    let bad = |e: String| format!("the cloud's answer is not XML: {e}");
    let mut reader = quick_xml::Reader::from_str(text);
    let mut open: Vec<Open> = Vec::new();
    loop {
        let closed = match reader.read_event().map_err(|e| bad(e.to_string()))? {
            Event::Start(start) => {
                if open.len() >= DEPTH {
                    return Err(bad(format!("it is deeper than {DEPTH}")));
                }
                let name = start.local_name().as_ref().to_owned();
                open.push(Open { name, members: Vec::new(), text: String::new() });
                continue;
            }
            Event::Empty(start) => {
                let name = start.local_name().as_ref().to_owned();
                Open { name, members: Vec::new(), text: String::new() }
            }
            Event::Text(part) => {
                if let Some(top) = open.last_mut() {
                    top.text += &*part;
                }
                continue;
            }
            Event::GeneralRef(name) => {
                let written = format!("&{};", &*name);
                let part = quick_xml::escape::unescape(&written).map_err(|e| bad(e.to_string()))?;
                if let Some(top) = open.last_mut() {
                    top.text += &part;
                }
                continue;
            }
            Event::End(_) => match open.pop() {
                Some(closed) => closed,
                None => return Err(bad("an element ends that has not begun".to_owned())),
            },
            Event::Eof => return Err(bad("it ends too early".to_owned())),
            _ => continue,
        };
        let (name, value) = (closed.name.clone(), value(&closed.name, closed.members, &closed.text));
        match open.last_mut() {
            Some(parent) => parent.members.push((name, value)),
            None => return Ok(value),
        }
    }
}

fn value(name: &str, members: Vec<(String, Value)>, text: &str) -> Value {
    if name.ends_with("Set") || members.iter().any(|(name, _)| name == "item") {
        return Value::Array(members.into_iter().map(|(_, item)| item).collect());
    }
    // The parts of a tag are texts.
    let is_tag = ["key", "value"].iter().all(|part| members.iter().any(|(name, _)| name == part));
    if is_tag {
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let members = members.into_iter().map(|(name, value)| (name.into(), text(value).into()));
        return Value::Object(Map::of(members.collect()));
    }
    if !members.is_empty() {
        return Value::Object(Map::of(members.into_iter().map(|(name, value)| (name.into(), value)).collect()));
    }
    let text = text.trim();
    let is_number =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ if is_number && name != "ownerId" => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn an_answer_is_a_tree_with_lists_and_numbers() {
        let text = "<?xml version=\"1.0\"?>\n<R xmlns=\"x\"><requestId>1</requestId><volumeSet><item><volumeId>vol-1</volumeId>\
            <size>4</size><encrypted>false</encrypted><attachmentSet/><tagSet><item><key>k</key><value>5&amp;6</value></item>\
            <item><key>n</key><value>7</value></item><item><key>b</key><value>true</value></item></tagSet></item></volumeSet></R>";
        assert_eq!(
            tree(text).unwrap(),
            json!({"requestId": 1, "volumeSet": [{
                "volumeId": "vol-1", "size": 4, "encrypted": false, "attachmentSet": [],
                "tagSet": [{"key": "k", "value": "5&6"}, {"key": "n", "value": "7"}, {"key": "b", "value": "true"}],
            }]})
        );
        for bad in ["", "<a>", "<a><b></a>", "no", "</a>"] {
            tree(bad).unwrap_err();
        }
        tree(&"<a>".repeat(100)).unwrap_err();
    }
}
