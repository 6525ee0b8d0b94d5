//! The Common Expression Language as Kubernetes' own policies use it, within the limits of the `cel` crate: for the
//! rules of custom kinds, for policies and mutations, and for the conditions of scenarios.
//!
//! An expression with an unknown function is refused when it is compiled, not when it is evaluated.

pub mod check;
mod library;
mod mutation;
pub mod over;
mod paths;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

pub use cel::Value as CelValue;
use cel::objects::OptionalValue;
use cel::{Context, Env, Program, extensions};
pub use library::authz::{Authorizer, Judge, Question};
use substrate::json::Value;

/// Maximum length of an expression; upstream limits the cost of rules instead.
const MAX_LENGTH: usize = 8192;
/// Maximum nesting of parentheses, brackets and braces.
const MAX_DEPTH: usize = 32;
/// Functions and macros of the evaluator. The names of operators begin with an underscore or an at sign.
const KNOWN: &[&str] = &[
    "all",
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "exists",
    "exists_one",
    "filter",
    "has",
    "hasValue",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "map",
    "matches",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "replace",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];
/// Functions that create optional values, in the namespace `optional`.
const OPTIONAL: &[&str] = &["none", "of", "ofNonZeroValue"];

/// CEL with the functions of Kubernetes.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // Fails only if a function exists already, and that one is used then.
    let _ = env.add_extension(extensions::strings);
    let _ = env.add_extension(library::extension);
    Arc::new(env)
});

/// Reserved words. An expression writes properties of these names as `__namespace__`.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];
/// Escapes for characters that names in CEL cannot have.
const ESCAPES: [(&str, &str); 4] = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];

/// Returns the property name behind an escaped name (Kubernetes: "Escaping" of property names in validation rules);
/// `None` if the name is not escaped.
fn unescape(name: &str) -> Option<String> {
    let word = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__")).filter(|word| RESERVED.contains(word));
    let property = match word {
        Some(word) => word.to_owned(),
        None => ESCAPES.iter().fold(name.to_owned(), |text, (escape, plain)| text.replace(escape, plain)),
    };
    (property != name).then_some(property)
}

/// Returns the escaped names of an expression, with their property names.
fn escaped(source: &str) -> Vec<(String, String)> {
    let names = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| name.contains("__"));
    names.filter_map(|name| Some((name.to_owned(), unescape(name)?))).collect()
}

/// A compiled expression.
pub struct Expression {
    source: String,
    escaped: Vec<(String, String)>,
    program: Program,
    env: Arc<Env>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)
    }
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The reason, or the feature that this server does not have.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::compile_with(source, &[])
    }

    /// Compiles an expression that creates objects or the operations of a JSON patch.
    ///
    /// # Errors
    /// The reason, or the feature that this server does not have.
    pub fn compile_mutation(source: &str) -> Result<Self, String> {
        let mut expression = Self::compile_with(source, &["escapeKey"])?;
        expression.env = mutation::env(mutation::types_made(expression.program.expression())?);
        Ok(expression)
    }

    fn compile_with(source: &str, more: &[&str]) -> Result<Self, String> {
        Self::check(source, more).map_err(|refusal| refusal.message)
    }

    /// Compiles an expression and reports the position of an error; `more` are additional functions.
    ///
    /// # Errors
    /// The reason, or the feature that this server does not have.
    pub fn check(source: &str, more: &[&str]) -> Result<Self, Refusal> {
        if source.len() > MAX_LENGTH || depth(source) > MAX_DEPTH {
            let message = format!("the expression is longer than {MAX_LENGTH} bytes or nested deeper than {MAX_DEPTH}");
            return Err(Refusal { message, ..Refusal::default() });
        }
        // A panic of the parser, which is a foreign crate, counts as a syntax error.
        let program = catch_unwind(AssertUnwindSafe(|| ENV.compile(source)))
            .map_err(|_| Refusal { message: "compilation failed".to_owned(), ..Refusal::default() })?
            .map_err(|errors| Refusal::of(&errors))?;
        let unknown: Vec<String> = {
            let references = program.references();
            let makes_optional = |f: &str| OPTIONAL.contains(&f) && references.has_variable("optional");
            let mut unknown: Vec<String> = references
                .functions()
                .into_iter()
                .filter(|f| {
                    !f.starts_with(['_', '@', '!', '-'])
                        && !KNOWN.contains(f)
                        && !library::FUNCTIONS.contains(f)
                        && !more.contains(f)
                        && !makes_optional(f)
                })
                .map(str::to_owned)
                .collect();
            unknown.sort();
            unknown
        };
        if let Some(function) = unknown.first() {
            return Err(Refusal::no_function(source, function, more));
        }
        Ok(Self { source: source.to_owned(), escaped: escaped(source), program, env: ENV.clone() })
    }

    /// Returns true if the expression mentions a variable.
    pub fn mentions(&self, variable: &str) -> bool {
        self.program.references().variables().contains(&variable)
    }

    /// Returns the expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates the expression with variables.
    ///
    /// # Errors
    /// The reason why it has no value.
    pub fn evaluate(&self, variables: &[(&str, &Value)]) -> Result<cel::Value, String> {
        self.evaluate_with(variables, &[])
    }

    /// Evaluates the expression, with optional variables in addition, which it checks by `hasValue()`.
    ///
    /// # Errors
    /// The reason why it has no value.
    pub fn evaluate_with(
        &self,
        variables: &[(&str, &Value)],
        optional: &[(&str, Option<&Value>)],
    ) -> Result<cel::Value, String> {
        self.run(Inputs { variables, ..Inputs::default() }, optional)
    }

    /// Evaluates the expression with all inputs of a policy.
    ///
    /// # Errors
    /// The reason why it has no value.
    pub fn evaluate_for(&self, inputs: Inputs<'_>) -> Result<cel::Value, String> {
        self.run(inputs, &[])
    }

    fn run(&self, inputs: Inputs<'_>, optional: &[(&str, Option<&Value>)]) -> Result<cel::Value, String> {
        catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::with_env(self.env.clone());
            for (name, value) in inputs.variables {
                context.add_variable_from_value(*name, to_cel(value, &self.escaped));
            }
            for (name, value) in optional {
                let value = match value {
                    Some(value) => OptionalValue::of(to_cel(value, &self.escaped)),
                    None => OptionalValue::none(),
                };
                context.add_variable_from_value(*name, cel::Value::Opaque(Arc::new(value)));
            }
            if let Some(composed) = inputs.composed {
                #[expect(
                    clippy::disallowed_types,
                    reason = "the evaluator's own map; a rule's result does not depend on its order"
                )]
                let fields: std::collections::HashMap<String, cel::Value> = composed.iter().cloned().collect();
                context.add_variable_from_value("variables", cel::Value::from(fields));
            }
            if let Some((authorizer, about)) = inputs.authorizer {
                context.add_variable_as_val("authorizer", Box::new(authorizer.clone()));
                context.add_variable_as_val("authorizer.requestResource", authorizer.request_resource(about));
            }
            self.program.execute(&context).map_err(|error| error.to_string())
        }))
        .unwrap_or_else(|_| Err("evaluation failed".to_owned()))
    }
}

impl Expression {
    /// Evaluates a mutation to an object that is then merged into the present one.
    ///
    /// # Errors
    /// The reason why it has no value, or the wrong one.
    pub fn evaluate_object(&self, inputs: Inputs<'_>) -> Result<Value, String> {
        mutation::object(&self.evaluate_for(inputs)?)
    }

    /// Evaluates a mutation to the operations of a JSON patch.
    ///
    /// # Errors
    /// The reason why it has no value, or the wrong one.
    pub fn evaluate_json_patch(&self, inputs: Inputs<'_>) -> Result<Value, String> {
        mutation::json_patch(&self.evaluate_for(inputs)?)
    }

    /// Returns a variable that the expression mentions and that is not in `known` or declared by one of its macros.
    pub fn unknown_variable(&self, known: &[&str]) -> Option<String> {
        let mut free = self.free_variables();
        free.retain(|name| {
            let name = name.as_str();
            !known.contains(&name)
                && !name.starts_with('@')
                && !TYPES.contains(&name)
                && !library::NAMESPACES.contains(&name)
        });
        free.into_iter().next()
    }
}

/// Inputs of an expression of a policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// Values by variable name.
    pub variables: &'a [(&'a str, &'a Value)],
    /// Fields of `variables`: values of any type that the policy has computed.
    pub composed: Option<&'a [(String, CelValue)]>,
    /// `authorizer` for access checks, and the request itself for `authorizer.requestResource`.
    pub authorizer: Option<(&'a Authorizer, &'a Question)>,
}

/// Reason why an expression is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The message, as the API server gives it.
    pub message: String,
    /// The error alone, in one line.
    pub why: String,
    /// Line and column within the expression, from 1, if known.
    pub at: Option<(usize, usize)>,
    /// The wrong word, if a single word is wrong.
    pub word: Option<String>,
    /// The nearest valid word.
    pub nearest: Option<&'static str>,
}

impl Refusal {
    fn of(errors: &cel::ParseErrors) -> Self {
        let message = format!("compilation failed: {errors}");
        let Some(first) = errors.errors.first() else { return Self { message, ..Self::default() } };
        let number = |n: isize| usize::try_from(n).ok().filter(|n| *n > 0);
        let at = number(first.pos.0).zip(number(first.pos.1));
        Self { message, why: first.msg.lines().next().unwrap_or_default().to_owned(), at, ..Self::default() }
    }

    fn no_function(source: &str, function: &str, more: &[&str]) -> Self {
        let message =
            format!("compilation failed: undeclared reference to '{function}': this server has no such function");
        let known = KNOWN.iter().chain(library::FUNCTIONS).copied().filter(|known| !more.contains(known));
        let nearest = substrate::words::nearest(function, known);
        let why = format!("there is no function `{function}`");
        Self { message, why, at: place(source, function), word: Some(function.to_owned()), nearest }
    }
}

/// Returns true if a text can be the name of a variable.
pub fn is_identifier(name: &str) -> bool {
    let inner = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(inner)
        && !RESERVED.contains(&name)
}

/// Returns line and column of the first occurrence of `word` in `source` as a whole word.
pub fn place(source: &str, word: &str) -> Option<(usize, usize)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (at, _) = source.match_indices(word).find(|(at, _)| {
        let before = source[..*at].chars().next_back().is_some_and(is_part);
        !before && !source[*at + word.len()..].chars().next().is_some_and(is_part)
    })?;
    let line_start = source[..at].rfind('\n').map_or(0, |at| at + 1);
    Some((source[..at].matches('\n').count() + 1, source[line_start..at].chars().count() + 1))
}

/// Names of types, which may be used like variables.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "optional",
    "optional_type",
    "string",
    "type",
    "uint",
];

/// Returns the nesting depth of brackets of any kind.
fn depth(source: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for c in source.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// Converts JSON to CEL. Numbers become signed integers or floats. Properties are also there under the escaped name
/// that the expression uses.
fn to_cel(value: &Value, escaped: &[(String, String)]) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(is) => (*is).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => cel::Value::List(Arc::new(list.iter().map(|item| to_cel(item, escaped)).collect())),
        Value::Object(map) => {
            #[expect(
                clippy::disallowed_types,
                reason = "the evaluator's own map; a rule's result does not depend on its order"
            )]
            let entries: std::collections::HashMap<String, cel::Value> = map
                .iter()
                .flat_map(|(key, value)| {
                    let other = escaped.iter().find(|(_, property)| property == key).map(|(name, _)| name.clone());
                    let value = to_cel(value, escaped);
                    other.map(|name| (name, value.clone())).into_iter().chain([(key.to_string(), value)])
                })
                .collect();
            entries.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn holds(rule: &str, value: &Value) -> bool {
        Expression::compile(rule).unwrap().evaluate(&[("self", value)]) == Ok(cel::Value::Bool(true))
    }

    #[test]
    fn expressions_speak_of_objects() {
        let value = json!({"min": 1, "max": 3, "names": ["a", "b"], "labels": {"x": "y"}});
        for rule in [
            "self.min <= self.max",
            "has(self.labels) && !has(self.nope)",
            "self.names.all(n, n.size() == 1)",
            "self.names.exists(n, n == 'b')",
            "'x' in self.labels",
            "self.labels['x'].startsWith('y')",
            "self.names.filter(n, n != 'a').size() == 1",
            "!has(self.nope) || self.nope > 1",
            "self.labels['x'].matches('^y$')",
        ] {
            assert!(holds(rule, &value), "{rule}");
        }
    }

    #[test]
    fn properties_that_are_no_names_of_cel_have_escaped_ones() {
        let value = json!({"name": "a", "namespace": "b", "a-b": {"c.d/e": 1}, "x__y": 2, "labels": {"k-1": "v"}});
        for rule in [
            "has(self.name) && has(self.__namespace__)",
            "self.__namespace__ == 'b' && !has(self.__package__)",
            "self.a__dash__b.c__dot__d__slash__e == 1",
            "self.x__underscores__y == 2",
            "self.labels.all(k, k == 'k-1') && self.labels.size() == 1",
        ] {
            assert!(holds(rule, &value), "{rule}");
        }
    }

    #[test]
    fn a_name_that_a_macro_gives_is_no_unknown_variable() {
        let unknown = |source: &str| Expression::compile(source).unwrap().unknown_variable(&["self"]);
        assert_eq!(unknown("self.a.all(n, n.b.exists(m, m == n)) && self.c.map(n, n + 1).size() == 1"), None);
        assert_eq!(unknown("self.a.all(n, n == m)").as_deref(), Some("m"));
        assert_eq!(unknown("self.a.all(n, true) && n == 1").as_deref(), Some("n"));
        assert_eq!(unknown("type(self.a) == int"), None);
    }

    #[test]
    fn a_missing_field_is_an_empty_optional() {
        let value = json!({"spec": {"a": 1, "b": null}, "list": ["x"], "labels": {"k": "v"}});
        for rule in [
            "self.?spec.?a.orValue(7) == 1",
            "self.?none.?a.orValue(7) == 7",
            "self.spec[?'c'].orValue('d') == 'd'",
            "self.list[?0].value() == 'x' && !self.list[?1].hasValue()",
            "self.labels[?'x'].or(self.labels[?'k']).value() == 'v'",
            "self.?spec.?a.optMap(a, a + 1).orValue(0) == 2",
            "self.?list.optFlatMap(l, l[?3]).orValue('none') == 'none'",
            "optional.of(1).hasValue() && !optional.none().hasValue() && !optional.ofNonZeroValue(0).hasValue()",
            "{?'a': self.?spec.?a, ?'z': self.?z} == {'a': 1}",
            "[?self.?z, self.spec.a] == [1]",
        ] {
            assert!(holds(rule, &value), "{rule}");
            assert_eq!(Expression::compile(rule).unwrap().unknown_variable(&["self"]), None, "{rule}");
        }
        let value = Expression::compile("self.?z.value() == 1").unwrap().evaluate(&[("self", &value)]);
        assert!(value.is_err(), "{value:?}");
        assert!(Expression::compile("self.of(1)").is_err());
    }

    #[test]
    fn a_variable_may_be_optional() {
        let rule = Expression::compile("!oldSelf.hasValue() || oldSelf.value().a < self.a").unwrap();
        let grows = |old: Option<&Value>| rule.evaluate_with(&[("self", &json!({"a": 2}))], &[("oldSelf", old)]);
        assert_eq!(grows(None), Ok(cel::Value::Bool(true)));
        assert_eq!(grows(Some(&json!({"a": 1}))), Ok(cel::Value::Bool(true)));
        assert_eq!(grows(Some(&json!({"a": 3}))), Ok(cel::Value::Bool(false)));
    }

    #[test]
    fn a_refusal_says_where_and_what_would_be_right() {
        let refused = |source: &str| Expression::check(source, &[]).unwrap_err();
        let refusal = refused("self.a.exist(n, n == 1)");
        assert_eq!((refusal.at, refusal.nearest), (Some((1, 8)), Some("exists")));
        assert_eq!(refusal.why, "there is no function `exist`");
        let refusal = refused("self.a &&\n  self.b = 1");
        assert_eq!(refusal.at.map(|(line, _)| line), Some(2), "{refusal:?}");
    }

    #[test]
    fn an_invalid_expression_fails_to_compile() {
        let refused = |rule: &str| Expression::compile(rule).unwrap_err();
        assert!(refused("self ==").contains("compilation failed"));
        assert!(refused("quantities(self).isGreaterThan(quantity('1'))").contains("undeclared reference to"));
        assert!(refused(&"(".repeat(100)).contains("nested deeper"));
        assert!(refused(&"a".repeat(10_000)).contains("longer than"));
    }
}
