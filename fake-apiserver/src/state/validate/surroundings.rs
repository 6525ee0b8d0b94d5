//! Validation of a pod's spec beside its containers and its scheduling: network, names, claims (`ValidatePodSpec`).

use substrate::json::{Value, json};

use super::container::Setting;
use super::{addresses, names, refuse};
use crate::state::FieldError;
use crate::state::value::{int, list, text};

/// Limits of the resolver.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCHES: usize = 2048;

/// Checks that ports on the network of the host have one number. In a template, those of the host may be unset.
pub(super) fn host_network(spec: &Value, is_pod: bool, errors: &mut Vec<FieldError>) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (i, container) in list(spec, &["containers"]).iter().enumerate() {
        for (k, port) in list(container, &["ports"]).iter().enumerate() {
            let number = |field: &str| int(port, &[field]).unwrap_or(0);
            let on_host = number("hostPort");
            if (is_pod || on_host != 0) && on_host != number("containerPort") {
                let why = "must match `containerPort` when `hostNetwork` is true";
                let field = format!("spec.containers[{i}].ports[{k}].hostPort");
                errors.push(FieldError::invalid(field, &on_host.into(), why));
            }
        }
    }
}

/// Validates the settings of the resolver.
pub(super) fn resolver(spec: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.dnsConfig";
    let config = &spec["dnsConfig"];
    let (servers, searches) = (list(config, &["nameservers"]), list(config, &["searches"]));
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        let (field, what) = if config.is_null() {
            (AT.to_owned(), "`dnsConfig`")
        } else {
            (format!("{AT}.nameservers"), "at least one DNS nameserver")
        };
        errors.push(FieldError::required(field, format!("must provide {what} when `dnsPolicy` is None")));
        return;
    }
    if servers.len() > MOST_SERVERS {
        let why = format!("must not have more than {MOST_SERVERS} nameservers");
        errors.push(FieldError::invalid(format!("{AT}.nameservers"), &config["nameservers"], why));
    }
    for (i, server) in servers.iter().enumerate() {
        if let Some(why) = addresses::address(server.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("{AT}.nameservers[{i}]"), server, why));
        }
    }
    if searches.len() > MOST_SEARCHES {
        let why = format!("must not have more than {MOST_SEARCHES} search paths");
        errors.push(FieldError::invalid(format!("{AT}.searches"), &config["searches"], why));
    }
    let words: Vec<&str> = searches.iter().filter_map(Value::as_str).collect();
    if words.join(" ").len() > LONGEST_SEARCHES {
        let why =
            format!("must not have more than {LONGEST_SEARCHES} characters (including spaces) in the search list");
        errors.push(FieldError::invalid(format!("{AT}.searches"), &config["searches"], why));
    }
    for (i, &word) in words.iter().enumerate().filter(|(_, word)| **word != ".") {
        let word = word.strip_suffix('.').unwrap_or(word);
        refuse(word, &format!("{AT}.searches[{i}]"), names::underscored(word), errors);
    }
    for (i, option) in list(config, &["options"]).iter().enumerate() {
        if text(option, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("{AT}.options[{i}]"), "must not be empty"));
        }
    }
}

/// Validates the pod's resource claims.
pub(super) fn claims(claims: &[Value], errors: &mut Vec<FieldError>) {
    for (i, claim) in claims.iter().enumerate() {
        let (name, at) = (text(claim, &["name"]), format!("spec.resourceClaims[{i}]"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if claims[..i].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        } else {
            refuse(name, &format!("{at}.name"), names::label(name), errors);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let why = match sources.iter().filter(|source| !claim[**source].is_null()).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        };
        if !why.is_empty() {
            // Upstream shows the claim in Go's form.
            let shown = json!({
                "Name": name,
                "ResourceClaimName": claim["resourceClaimName"],
                "ResourceClaimTemplateName": claim["resourceClaimTemplateName"],
            });
            errors.push(FieldError::invalid(&at, &shown, why));
        }
        for source in sources {
            if let Some(named) = claim[source].as_str() {
                refuse(named, &format!("{at}.{source}"), names::subdomain(named), errors);
            }
        }
    }
}

/// Checks what excludes users of their own: namespaces of the host.
pub(super) fn host_users(spec: &Value, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    if setting.has_host_users {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[field] == true {
            errors.push(FieldError::forbidden(format!("spec.{shown}"), "when `hostUsers` is false"));
        }
    }
}

/// Validates the names that the pod has or refers to.
pub(super) fn named(spec: &Value, errors: &mut Vec<FieldError>) {
    let over = &spec["hostnameOverride"];
    if let Some(name) = over.as_str() {
        const AT: &str = "spec.hostnameOverride";
        for field in ["setHostnameAsFQDN", "hostNetwork"] {
            if spec[field] == true {
                errors.push(FieldError::forbidden(AT, format!("may not be specified when {field} is true")));
            }
        }
        if name.len() > 64 {
            errors.push(FieldError::too_long(AT, 64));
        }
        refuse(name, AT, names::subdomain(name), errors);
    }
    for field in ["serviceAccountName", "nodeName"] {
        let name = text(spec, &[field]);
        if !name.is_empty() {
            refuse(name, &format!("spec.{field}"), names::subdomain(name), errors);
        }
    }
}

/// Validates the names by which the pod is known.
pub(super) fn host_names(spec: &Value, errors: &mut Vec<FieldError>) {
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &[field]);
        if !name.is_empty() {
            refuse(name, &format!("spec.{field}"), names::label(name), errors);
        }
    }
}

/// Validates the lines that are added to the file of host names.
pub(super) fn aliases(aliases: &[Value], errors: &mut Vec<FieldError>) {
    for (i, alias) in aliases.iter().enumerate() {
        let (at, address) = (format!("spec.hostAliases[{i}]"), text(alias, &["ip"]));
        if let Some(why) = addresses::address(address) {
            errors.push(FieldError::invalid(format!("{at}.ip"), &address.into(), why));
        }
        for (k, host) in list(alias, &["hostnames"]).iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            refuse(host, &format!("{at}.hostnames[{k}]"), names::subdomain(host), errors);
        }
    }
}
