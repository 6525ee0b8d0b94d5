//! The recycle bin's own service, limited to retention rules of snapshots and volumes.

use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use substrate::{Body, Ctx, body};

use crate::cloud::Ec2;
use crate::state::error::Ec2Error;
use crate::state::recycle::{ResourceTag, Retained, Rule};
use crate::wire::auth::Means;
use crate::wire::{auth, signature};

/// Largest request in bytes.
const LIMIT: usize = 64 << 10;
/// Range of a rule's days.
const DAYS: std::ops::RangeInclusive<i64> = 1..=3_650;
/// Longest description.
const DESCRIPTION: usize = 255;
/// Largest number of tags in a rule.
const MOST_TAGS: usize = 50;

/// Refusal: status, type and text.
type Refusal = (StatusCode, &'static str, String);

fn invalid(text: impl Into<String>) -> Refusal {
    (StatusCode::BAD_REQUEST, "ValidationException", text.into())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Period {
    retention_period_value: i64,
    retention_period_unit: String,
}

/// Fields of CreateRule, UpdateRule and ListRules.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
struct Request {
    retention_period: Option<Period>,
    description: Option<String>,
    resource_type: Option<String>,
    resource_tags: Option<Vec<ResourceTag>>,
    exclude_resource_tags: Option<Vec<ResourceTag>>,
    lock_configuration: Option<Value>,
    lock_state: Option<String>,
    tags: Option<Vec<Value>>,
    max_results: Option<usize>,
    next_token: Option<String>,
}

/// Answers a request of the service.
pub(crate) fn serve(ec2: Ec2, ctx: Ctx, parts: Parts, body: Body) -> BoxFuture<'static, Response<Body>> {
    Box::pin(async move {
        let (status, kind, text) = match answer(&ec2, &ctx, &parts, body).await {
            Ok((status, Value::Null)) => (status, None, String::new()),
            Ok((status, value)) => (status, None, value.to_string()),
            Err((status, kind, message)) => (status, Some(kind), json!({ "Message": message }).to_string()),
        };
        let mut response = Response::new(body::full(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(kind) = kind {
            headers.insert("x-amzn-errortype", HeaderValue::from_static(kind));
        }
        if let Ok(id) = HeaderValue::from_str(&ec2.counts().request_id()) {
            headers.insert("x-amzn-requestid", id);
        }
        response
    })
}

async fn answer(ec2: &Ec2, ctx: &Ctx, parts: &Parts, body: Body) -> Result<(StatusCode, Value), Refusal> {
    let denied = |e: Ec2Error| (StatusCode::FORBIDDEN, "AccessDeniedException", e.to_string());
    let bytes = substrate::body::collect(body, LIMIT).await;
    let bytes = bytes.map_err(|error| invalid(format!("the request body did not arrive: {error}")))?;
    let caller = auth::caller(parts, b"").map_err(denied)?;
    let (config, settings) = (ec2.config(), ec2.settings());
    if let Some(region) = auth::region(parts).filter(|region| *region != settings.region) {
        return Err(denied(crate::regions::refusal(&region, &settings.regions)));
    }
    if !config.credentials.is_empty() {
        let scope = signature::Scope { region: &config.region, service: "rbin" };
        signature::verify(parts, &bytes, &config.credentials, scope, ctx.now().wall).map_err(denied)?;
    }
    if parts.method != Method::GET && caller.means != Means::Header {
        return Err(invalid("a request that changes state needs its signature in the Authorization header"));
    }
    let request: Request = match bytes.as_ref() {
        b"" => Request::default(),
        text => serde_json::from_slice(text).map_err(|error| invalid(error.to_string()))?,
    };
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let service = Rules { ec2, ctx };
    let writes = parts.method != Method::GET && path != ["list-rules"];
    if writes && let Err(reason) = ec2.can_record(ctx).await {
        return Err((StatusCode::SERVICE_UNAVAILABLE, "InternalServerException", reason));
    }
    let answer = match (&parts.method, path.as_slice()) {
        (&Method::POST, ["rules"]) => service.create(request),
        (&Method::POST, ["list-rules"]) => service.list(&request),
        (&Method::GET, ["rules", id]) => service.get_rule(id),
        (&Method::PATCH, ["rules", id]) => service.update(id, request),
        (&Method::DELETE, ["rules", id]) => service.delete(id),
        _ => {
            let text = "Served here: CreateRule, DeleteRule, GetRule, ListRules, UpdateRule.";
            Err((StatusCode::NOT_FOUND, "UnknownOperationException", text.to_owned()))
        }
    }?;
    if writes && let Err(reason) = ec2.recorded(ctx).await {
        return Err((StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException", reason));
    }
    Ok(answer)
}

struct Rules<'a> {
    ec2: &'a Ec2,
    ctx: &'a Ctx,
}

impl Rules<'_> {
    fn create(&self, request: Request) -> Result<(StatusCode, Value), Refusal> {
        check(&request)?;
        let kind = request.resource_type.as_deref().ok_or_else(|| invalid("ResourceType: is missing"))?;
        let period = request.retention_period.as_ref().ok_or_else(|| invalid("RetentionPeriod: is missing"))?;
        let rule = Rule {
            kind: retained(kind)?,
            days: days(period)?,
            description: request.description.unwrap_or_default(),
            tags: request.resource_tags.unwrap_or_default(),
            excluded: request.exclude_resource_tags.unwrap_or_default(),
        };
        let id = self.ec2.with_state(self.ctx, |state, _| state.set_rule(None, rule.clone()));
        let mut shown = self.rule_value(&id, &rule);
        shown["Status"] = "pending".into();
        Ok((StatusCode::CREATED, shown))
    }

    fn update(&self, id: &str, request: Request) -> Result<(StatusCode, Value), Refusal> {
        check(&request)?;
        let mut rule = self.rule(id)?;
        if let Some(kind) = request.resource_type.as_deref() {
            rule.kind = retained(kind)?;
        }
        if let Some(period) = &request.retention_period {
            rule.days = days(period)?;
        }
        rule.description = request.description.unwrap_or(rule.description);
        rule.tags = request.resource_tags.unwrap_or(rule.tags);
        rule.excluded = request.exclude_resource_tags.unwrap_or(rule.excluded);
        self.ec2.with_state(self.ctx, |state, _| state.set_rule(Some(id.to_owned()), rule.clone()));
        Ok((StatusCode::OK, self.rule_value(id, &rule)))
    }

    fn get_rule(&self, id: &str) -> Result<(StatusCode, Value), Refusal> {
        let rule = self.rule(id)?;
        Ok((StatusCode::OK, self.rule_value(id, &rule)))
    }

    fn delete(&self, id: &str) -> Result<(StatusCode, Value), Refusal> {
        match self.ec2.with_state(self.ctx, |state, _| state.remove_rule(id)) {
            true => Ok((StatusCode::NO_CONTENT, Value::Null)),
            false => Err(missing(id)),
        }
    }

    fn list(&self, request: &Request) -> Result<(StatusCode, Value), Refusal> {
        check(request)?;
        let kind = request.resource_type.as_deref().ok_or_else(|| invalid("ResourceType: is missing"))?;
        let kind = retained(kind)?;
        let tags = request.resource_tags.as_deref().unwrap_or_default();
        let most = request.max_results.unwrap_or(1_000);
        if !(1..=1_000).contains(&most) {
            return Err(invalid("MaxResults: must lie between 1 and 1000"));
        }
        let after = request.next_token.as_deref().unwrap_or_default();
        let rules = self.ec2.look(self.ctx, |state| state.bin().rules.clone());
        let wanted = rules.iter().filter(|(id, rule)| {
            rule.kind == kind && id.as_str() > after && tags.iter().all(|tag| rule.tags.contains(tag))
        });
        let found: Vec<_> = wanted.take(most + 1).collect();
        let shown = found.iter().take(most).map(|(id, rule)| {
            let whole = self.rule_value(id, rule);
            let fields = ["Identifier", "Description", "RetentionPeriod", "LockState", "RuleArn"];
            Value::Object(fields.iter().map(|name| ((*name).to_owned(), whole[*name].clone())).collect())
        });
        let mut answer = json!({ "Rules": shown.collect::<Vec<_>>() });
        if found.len() > most
            && let Some((id, _)) = found.get(most - 1)
        {
            answer["NextToken"] = (*id).clone().into();
        }
        Ok((StatusCode::OK, answer))
    }

    fn rule(&self, id: &str) -> Result<Rule, Refusal> {
        self.ec2.look(self.ctx, |state| state.bin().rules.get(id).cloned()).ok_or_else(|| missing(id))
    }

    fn rule_value(&self, id: &str, rule: &Rule) -> Value {
        let settings = self.ec2.settings();
        json!({
            "Identifier": id,
            "RetentionPeriod": { "RetentionPeriodValue": rule.days, "RetentionPeriodUnit": "DAYS" },
            "Description": rule.description,
            "ResourceType": rule.kind,
            "ResourceTags": rule.tags,
            "ExcludeResourceTags": rule.excluded,
            "Status": "available",
            "LockState": "unlocked",
            "RuleArn": format!("arn:aws:rbin:{}:{}:rule/{id}", settings.region, settings.account_id),
        })
    }
}

fn missing(id: &str) -> Refusal {
    (StatusCode::NOT_FOUND, "ResourceNotFoundException", format!("Rule not found: {id}"))
}

fn retained(text: &str) -> Result<Retained, Refusal> {
    match text {
        "EBS_SNAPSHOT" => Ok(Retained::EbsSnapshot),
        "EBS_VOLUME" => Ok(Retained::EbsVolume),
        other => Err(invalid(format!("ResourceType: `{other}` is not emulated; use EBS_SNAPSHOT or EBS_VOLUME"))),
    }
}

fn days(period: &Period) -> Result<i64, Refusal> {
    if period.retention_period_unit != "DAYS" {
        let text = format!("RetentionPeriodUnit: `{}` is not known; use DAYS", period.retention_period_unit);
        return Err(invalid(text));
    }
    match period.retention_period_value {
        days if DAYS.contains(&days) => Ok(days),
        days => Err(invalid(format!("RetentionPeriodValue: {days} does not lie between 1 and 3650"))),
    }
}

/// Checks the common fields of all requests.
fn check(request: &Request) -> Result<(), Refusal> {
    if request.lock_configuration.is_some() || request.lock_state.is_some() {
        return Err(invalid("LockConfiguration, LockState: locks of rules are not emulated"));
    }
    if request.tags.as_ref().is_some_and(|tags| !tags.is_empty()) {
        return Err(invalid("Tags: tags of rules are not emulated"));
    }
    if request.description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION) {
        return Err(invalid(format!("Description: has more than {DESCRIPTION} characters")));
    }
    for tags in [&request.resource_tags, &request.exclude_resource_tags].into_iter().flatten() {
        if tags.len() > MOST_TAGS {
            return Err(invalid(format!("ResourceTags, ExcludeResourceTags: at most {MOST_TAGS}")));
        }
    }
    Ok(())
}
