//! Reads metrics of a process in the text format of Prometheus.

use http::Request;
use substrate::HttpService;
use substrate::admin::Secret;
use substrate::body::{call, collect, empty};

use crate::cluster::metrics::ProcessMetrics;
use crate::scenario::predicate::{Metric, MetricsOf};

/// Maximum size of the text in bytes.
const LIMIT: usize = 64 << 20;

/// Client of the processes' metrics.
#[derive(Clone)]
pub(super) struct Meter {
    pub(super) cloud: HttpService,
    pub(super) apiserver: HttpService,
    pub(super) processes: ProcessMetrics,
    pub(super) token: Option<Secret>,
}

impl Meter {
    /// Returns true if the metric has the expected value, with a description of its value.
    ///
    /// # Errors
    /// Returns the reason if this cannot be determined.
    pub(super) async fn look(&self, wanted: &Metric) -> Result<(bool, String), String> {
        let text = self.read(&wanted.of).await.map_err(|e| format!("{} does not tell: {e}", wanted.of.name()))?;
        let (value, samples) = sum(&text, wanted)?;
        let samples = if samples.is_empty() { "no sample with these labels".to_owned() } else { samples.join(", ") };
        Ok((wanted.holds(value), format!("it is {value}: {samples}")))
    }

    async fn read(&self, of: &MetricsOf) -> Result<String, substrate::BoxError> {
        let (service, token) = match of {
            MetricsOf::MockEc2 => (self.cloud.clone(), self.token.as_ref()),
            MetricsOf::FakeApiserver => (self.apiserver.clone(), None),
            MetricsOf::Process(name) => (self.processes.connect(name)?, None),
        };
        let mut request = Request::get("/metrics").header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        let response = call(service, request.body(empty())?).await?;
        let status = response.status();
        let bytes = collect(response.into_body(), LIMIT).await?;
        if !status.is_success() {
            return Err(format!("it answers {status}").into());
        }
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

/// Sum of the matching samples, and their lines. A metric that exists without matching samples has the value zero.
fn sum(text: &str, wanted: &Metric) -> Result<(f64, Vec<String>), String> {
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: Vec<&str> = families.filter_map(|rest| rest.split_whitespace().next()).collect();
    let (mut sum, mut shown, mut there) = (0.0, Vec::new(), families.contains(&wanted.name.as_str()));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels, value)) = sample(line).filter(|(name, ..)| *name == wanted.name) else { continue };
        there |= !name.is_empty();
        if wanted.labels.iter().all(|(name, value)| labels.iter().any(|(n, v)| n == name && v == value)) {
            sum += value;
            shown.push(line.to_owned());
        }
    }
    if there {
        return Ok((sum, shown));
    }
    let near = substrate::words::nearest(&wanted.name, families.iter().copied());
    let near = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
    Err(format!("{} has no metric `{}`{near}", wanted.of.name(), wanted.name))
}

/// Labels with their values.
type Labels = Vec<(String, String)>;

/// Name, labels and value of a sample.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let Some(mut rest) = rest.strip_prefix('{') else {
        return Some((name, Vec::new(), rest.split_whitespace().next()?.parse().ok()?));
    };
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(value) = rest.strip_prefix('}') {
            return Some((name, labels, value.split_whitespace().next()?.parse().ok()?));
        }
        let (label, quoted) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), quoted.char_indices());
        loop {
            match chars.next()? {
                (at, '"') => {
                    rest = &quoted[at + 1..];
                    break;
                }
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        }
        labels.push((label.to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\",y=\"a, \\\"b\\\"\"} 2\n\
        a_total{x=\"2\",y=\"c\"} 3\n# TYPE b gauge\n# TYPE c gauge\nc 0.5\n";

    fn metric(name: &str, labels: &[(&str, &str)]) -> Metric {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (at_least, at_most, within) = (Some(1.0), None, std::time::Duration::ZERO);
        Metric { of: MetricsOf::MockEc2, name: name.to_owned(), labels, at_least, at_most, within }
    }

    #[test]
    fn samples_are_added_up_by_their_labels() {
        let value = |name: &str, labels: &[(&str, &str)]| sum(TEXT, &metric(name, labels)).map(|(value, _)| value);
        assert_eq!(value("a_total", &[]), Ok(5.0));
        assert_eq!(value("a_total", &[("x", "2")]), Ok(3.0));
        assert_eq!(value("a_total", &[("y", "a, \"b\"")]), Ok(2.0));
        assert_eq!((value("b", &[]), value("c", &[])), (Ok(0.0), Ok(0.5)));
        assert!(value("a_totl", &[]).unwrap_err().contains("did you mean `a_total`?"));
    }
}
