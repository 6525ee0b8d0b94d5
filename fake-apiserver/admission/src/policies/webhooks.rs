//! Configurations of webhooks (`pkg/apis/admissionregistration/validation`, apiserver `pkg/util/webhook`).

use std::collections::BTreeSet;

use http::Uri;
use substrate::json::Value;

use super::check::check_sources;
use super::rules;
use api_model::fields::FieldError;
use api_model::fields::value::{int, list, text};
use api_model::names::{self, refuse};

/// Variables that a match condition of a webhook may use.
const VARIABLES: &[&str] = &["authorizer", "object", "oldObject", "request"];
/// Existing versions of AdmissionReview.
const VERSIONS: &[&str] = &["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

/// Validates the webhooks of a configuration.
pub fn check_webhooks(configuration: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (i, webhook) in list(configuration, &["webhooks"]).iter().enumerate() {
        let at = format!("webhooks[{i}]");
        let name = text(webhook, &["name"]);
        check(webhook, &at, errors);
        versions(webhook, &at, errors);
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
    }
}

fn check(webhook: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let name = text(webhook, &["name"]);
    let place = format!("{at}.name");
    if name.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else if let Some(why) = names::joined(&names::subdomain(name)) {
        errors.push(FieldError::invalid(place, &name.into(), why));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(place, &name.into(), why));
    }
    for (i, rule) in list(webhook, &["rules"]).iter().enumerate() {
        rules::rule_with_operations(rule, &format!("{at}.rules[{i}]"), errors);
    }
    rules::one_of(webhook, "failurePolicy", at, &["Fail", "Ignore"], errors);
    rules::one_of(webhook, "matchPolicy", at, &["Equivalent", "Exact"], errors);
    if webhook["sideEffects"].is_null() {
        errors.push(FieldError::required(format!("{at}.sideEffects"), "must specify one of None, NoneOnDryRun"));
    }
    rules::one_of(webhook, "sideEffects", at, &["None", "NoneOnDryRun"], errors);
    if let Some(seconds) = int(webhook, &["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{at}.timeoutSeconds"), &seconds.into(), why));
    }
    rules::selectors(webhook, at, errors);
    rules::one_of(webhook, "reinvocationPolicy", at, &["IfNeeded", "Never"], errors);
    client(&webhook["clientConfig"], &format!("{at}.clientConfig"), errors);
    rules::condition_names(webhook, at, errors);
    check_sources(webhook, at, "matchConditions", &["expression"], VARIABLES, errors);
}

fn versions(webhook: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let at = format!("{at}.admissionReviewVersions");
    let all = list(webhook, &["admissionReviewVersions"]);
    if all.is_empty() {
        errors.push(FieldError::required(at, format!("must specify one of {}", VERSIONS.join(", "))));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, version) in all.iter().enumerate() {
        let word = version.as_str().unwrap_or_default();
        if !seen.insert(word) {
            errors.push(FieldError::invalid(format!("{at}[{i}]"), version, "duplicate version"));
        } else {
            refuse(word, &format!("{at}[{i}]"), names::label_of_letter(word), errors);
        }
    }
    if !seen.iter().any(|version| VERSIONS.contains(version)) {
        let why = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.push(FieldError::invalid(at, &webhook["admissionReviewVersions"], why));
    }
}

/// Validates the address of a webhook: a URL or a Service.
fn client(config: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), &config["service"]) {
        (Some(url), Value::Null) => address(url, &format!("{at}.url"), errors),
        (None, service) if !service.is_null() => {
            let at = format!("{at}.service");
            for field in ["name", "namespace"] {
                if text(service, &[field]).is_empty() {
                    errors.push(FieldError::required(format!("{at}.{field}"), format!("service {field} is required")));
                }
            }
            if let Some(port) = int(service, &["port"]).filter(|port| !(1..=65_535).contains(port)) {
                let why = "port is not valid: must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(format!("{at}.port"), &port.into(), why));
            }
            if service["path"].as_str().is_some_and(|path| !path.starts_with('/')) {
                let why = "must start with a '/'";
                errors.push(FieldError::invalid(format!("{at}.path"), &service["path"], why));
            }
        }
        _ => errors.push(FieldError::required(at, "exactly one of url or service is required")),
    }
}

fn address(url: &str, at: &str, errors: &mut Vec<FieldError>) {
    let Ok(parsed) = url.parse::<Uri>() else {
        errors.push(FieldError::required(at, format!("url must be a valid URL: {url:?}{FORM}")));
        return;
    };
    let mut refuse = |part: &str, why: String| errors.push(FieldError::invalid(at, &part.into(), why));
    let scheme = parsed.scheme_str().unwrap_or_default();
    if scheme != "https" {
        refuse(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parsed.host().unwrap_or_default().is_empty() {
        refuse("", format!("host must be specified{FORM}"));
    }
    let authority = parsed.authority().map_or("", |authority| authority.as_str());
    if let Some((user, _)) = authority.rsplit_once('@') {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    if let Some((_, fragment)) = url.split_once('#') {
        refuse(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if let Some(query) = parsed.query() {
        refuse(query, "query parameters are not permitted in the URL".to_owned());
    }
}
