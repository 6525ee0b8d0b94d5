//! Access checks: the variable `authorizer` of policies and of webhooks' match conditions.

use std::sync::Arc;

use cel::common::types::{CelBool, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, ExecutionError};

use super::format;
use super::values::{fails, opaque};

/// An access check of an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name of a service account; `None` for the user of the request.
    pub account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// The path of a non-resource request.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource; empty for none.
    pub subresource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The object; empty for none.
    pub name: String,
}

/// Answers access checks with the reason why the access is allowed, or `None`.
pub type Judge = Arc<dyn Fn(&Question) -> Option<String> + Send + Sync>;

/// The variable `authorizer`.
#[derive(Clone)]
pub struct Authorizer {
    judge: Judge,
    account: Option<(String, String)>,
}

/// An access check under construction, with the judge that will answer it.
#[derive(Clone)]
struct Check<const OF: u8> {
    judge: Judge,
    question: Question,
}

type Path = Check<0>;
type Group = Check<1>;
type Resource = Check<2>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Decision(Option<String>);
opaque!(Decision, "kubernetes.authorization.Decision");

/// Defines the types that hold the judge. Two values are equal if they check the same access.
macro_rules! asking {
    ($name:ident, $field:ident, $cel:literal) => {
        opaque!($name, $cel);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple($cel).field(&self.$field).finish()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.$field == other.$field
            }
        }
    };
}
asking!(Authorizer, account, "kubernetes.authorization.Authorizer");
asking!(Path, question, "kubernetes.authorization.PathCheck");
asking!(Group, question, "kubernetes.authorization.GroupCheck");
asking!(Resource, question, "kubernetes.authorization.ResourceCheck");

impl Authorizer {
    /// Creates an authorizer that asks `judge`.
    pub fn new(judge: Judge) -> Self {
        Self { judge, account: None }
    }

    /// Returns `authorizer.requestResource`: a check of the request itself.
    pub(in crate::cel) fn request_resource(&self, about: &Question) -> Box<dyn Val> {
        let question = Question { account: None, ..about.clone() };
        Box::new(Resource { judge: self.judge.clone(), question })
    }

    fn ask<const OF: u8>(&self, question: Question) -> Check<OF> {
        Check { judge: self.judge.clone(), question: Question { account: self.account.clone(), ..question } }
    }
}

impl<const OF: u8> Check<OF> {
    fn with<const NEXT: u8>(&self, set: impl FnOnce(&mut Question)) -> Check<NEXT> {
        let mut question = self.question.clone();
        set(&mut question);
        Check { judge: self.judge.clone(), question }
    }

    fn decide(&self, verb: &CelString<'_>) -> Decision {
        let question = Question { verb: verb.inner().to_owned(), ..self.question.clone() };
        Decision((self.judge)(&question))
    }
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_member_overload!(env, fn path: (Authorizer, CelString) -> Result<Path>)?;
    cel::add_member_overload!(env, fn group: (Authorizer, CelString) -> Group)?;
    cel::add_member_overload!(env, fn service_account: (Authorizer, CelString, CelString) -> Result<Authorizer>)?;
    cel::add_member_overload!(env, fn resource: (Group, CelString) -> Result<Resource>)?;
    cel::add_member_overload!(env, fn subresource: (Resource, CelString) -> Resource)?;
    cel::add_member_overload!(env, fn namespace: (Resource, CelString) -> Resource)?;
    cel::add_member_overload!(env, fn name: (Resource, CelString) -> Resource)?;
    cel::add_member_overload!(env, fn selector: (Resource, CelString) -> Resource, name = "fieldSelector")?;
    cel::add_member_overload!(env, fn selector: (Resource, CelString) -> Resource, name = "labelSelector")?;
    cel::add_member_overload!(env, fn check_path: (Path, CelString) -> Decision, name = "check")?;
    cel::add_member_overload!(env, fn check_resource: (Resource, CelString) -> Decision, name = "check")?;
    cel::add_member_overload!(env, fn allowed: (Decision) -> CelBool)?;
    cel::add_member_overload!(env, fn reason: (Decision) -> CelString)?;
    cel::add_member_overload!(env, fn errored: (Decision) -> CelBool)?;
    cel::add_member_overload!(env, fn error: (Decision) -> CelString)
}

fn path(of: &Authorizer, path: &CelString<'_>) -> Result<Path, ExecutionError> {
    let path = path.inner();
    if path.trim().is_empty() {
        return Err(fails("path", "path must not be empty"));
    }
    Ok(of.ask(Question { path: Some(path.to_owned()), ..Question::default() }))
}

fn group(of: &Authorizer, group: &CelString<'_>) -> Group {
    of.ask(Question { group: group.inner().to_owned(), ..Question::default() })
}

fn service_account(
    of: &Authorizer,
    namespace: &CelString<'_>,
    name: &CelString<'_>,
) -> Result<Authorizer, ExecutionError> {
    let (namespace, name) = (namespace.inner(), name.inner());
    if !format::is("dns1123Subdomain", name) {
        return Err(fails("serviceAccount", "Invalid service account name"));
    }
    if !format::is("dns1123Label", namespace) {
        return Err(fails("serviceAccount", "Invalid service account namespace"));
    }
    Ok(Authorizer { judge: of.judge.clone(), account: Some((namespace.to_owned(), name.to_owned())) })
}

fn resource(of: &Group, resource: &CelString<'_>) -> Result<Resource, ExecutionError> {
    let resource = resource.inner();
    if resource.trim().is_empty() {
        return Err(fails("resource", "resource must not be empty"));
    }
    Ok(of.with(|question| resource.clone_into(&mut question.resource)))
}

fn subresource(of: &Resource, subresource: &CelString<'_>) -> Resource {
    of.with(|question| subresource.inner().clone_into(&mut question.subresource))
}

fn namespace(of: &Resource, namespace: &CelString<'_>) -> Resource {
    of.with(|question| namespace.inner().clone_into(&mut question.namespace))
}

fn name(of: &Resource, name: &CelString<'_>) -> Resource {
    of.with(|question| name.inner().clone_into(&mut question.name))
}

/// RBAC ignores selectors: a user who may list may list with any selector.
fn selector(of: &Resource, _: &CelString<'_>) -> Resource {
    of.clone()
}

fn check_path(of: &Path, verb: &CelString<'_>) -> Decision {
    of.decide(verb)
}

fn check_resource(of: &Resource, verb: &CelString<'_>) -> Decision {
    of.decide(verb)
}

fn allowed(decision: &Decision) -> CelBool {
    decision.0.is_some().into()
}

fn reason(decision: &Decision) -> CelString<'static> {
    decision.0.clone().unwrap_or_default().into()
}

/// A check never fails.
fn errored(_: &Decision) -> CelBool {
    false.into()
}

fn error(_: &Decision) -> CelString<'static> {
    String::new().into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cel::{CelValue, Expression, Inputs};

    /// Allows every access except `delete`, with a text about the access as the reason.
    fn authorizer() -> Authorizer {
        Authorizer::new(Arc::new(|asked: &Question| {
            let of = asked.account.as_ref().map(|(namespace, name)| format!("{namespace}:{name}")).unwrap_or_default();
            let what = match &asked.path {
                Some(path) => path.clone(),
                None => [&asked.group, &asked.resource, &asked.subresource, &asked.namespace, &asked.name]
                    .map(String::as_str)
                    .join("/"),
            };
            (asked.verb != "delete").then(|| format!("{of} {} {what}", asked.verb))
        }))
    }

    fn evaluate(source: &str) -> Result<CelValue, String> {
        let about = Question { resource: "pods".to_owned(), name: "p".to_owned(), ..Question::default() };
        let authorizer = authorizer();
        let inputs = Inputs { authorizer: Some((&authorizer, &about)), ..Inputs::default() };
        Expression::compile(source).unwrap().evaluate_for(inputs)
    }

    #[rstest]
    #[case("authorizer.path('/healthz').check('get').reason()", " get /healthz")]
    #[case("authorizer.group('').resource('pods').check('create').reason()", " create /pods///")]
    #[case(
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('a').name('b').check('get').reason()",
        " get apps/deployments/scale/a/b"
    )]
    #[case(
        "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get').reason()",
        "ns:sa get /pods///"
    )]
    #[case("authorizer.requestResource.check('get').reason()", " get /pods///p")]
    #[case(
        "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c').check('list').reason()",
        " list /pods///"
    )]
    #[case("authorizer.path('/x').check('delete').reason() + authorizer.path('/x').check('get').error()", "")]
    fn questions_are_asked_as_they_are_put_together(#[case] source: &str, #[case] wanted: &str) {
        assert_eq!(evaluate(source), Ok(wanted.into()));
    }

    #[test]
    fn decisions_say_whether() {
        for (source, wanted) in [
            ("authorizer.path('/x').check('get').allowed()", true),
            ("authorizer.path('/x').check('delete').allowed()", false),
            ("authorizer.path('/x').check('delete').errored()", false),
        ] {
            assert_eq!(evaluate(source), Ok(CelValue::Bool(wanted)), "{source}");
        }
    }

    #[rstest]
    #[case("authorizer.path(' ').check('get').allowed()", "path must not be empty")]
    #[case("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty")]
    #[case("authorizer.serviceAccount('a.b', 'c').path('/x').check('get').allowed()", "service account namespace")]
    #[case("authorizer.serviceAccount('a', 'c@').path('/x').check('get').allowed()", "service account name")]
    fn an_invalid_check_says_why(#[case] source: &str, #[case] wanted: &str) {
        let why = evaluate(source).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    }

    #[test]
    fn without_an_authorizer_nothing_is_asked() {
        let expression = Expression::compile("authorizer.path('/x').check('get').allowed()").unwrap();
        assert!(expression.evaluate(&[]).is_err());
        assert_eq!(expression.unknown_variable(&[]).as_deref(), Some("authorizer"));
    }
}
