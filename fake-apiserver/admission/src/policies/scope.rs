//! Variables and cost limits of the expressions of a policy (apiserver
//! `admission/plugin/cel/{activation,composition}.go`).

use std::collections::BTreeMap;

use substrate::json::Value;

use api_model::cel::check::Declared;
use api_model::cel::{Authorizer, CelValue, Expression, Inputs, Question};
use api_model::fields::value::{list, text};

/// Cost limit of one evaluation, in CEL cost units.
const MOST_FOR_A_CALL: u64 = 1_000_000;
/// Cost limit of the expressions of one policy, or of one mutation, for one request and one parameter.
pub const MOST_FOR_A_POLICY: u64 = 10_000_000;
/// Cost limit of the match conditions of a policy or a webhook.
pub const MOST_FOR_CONDITIONS: u64 = 2_500_000;
/// Variable with the policy's own variables as fields.
const VARIABLES: &str = "variables";

/// Reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// This expression failed.
    This(String),
    /// The cost budget is spent.
    Spent,
}

impl Wrong {
    /// Returns the message.
    pub fn text(self) -> String {
        match self {
            Self::This(why) => why,
            Self::Spent => "validation failed due to running out of cost budget, no further validation rules will be \
                            run"
            .to_owned(),
        }
    }
}

/// A variable that the policy declares. It is evaluated on first use.
#[derive(Debug)]
struct Own {
    name: String,
    source: String,
    found: Option<Result<CelValue, String>>,
}

/// Variables of one evaluation, and the authorizer for access checks.
#[derive(Debug)]
pub struct Scope {
    variables: Vec<(&'static str, Value)>,
    own: Vec<Own>,
    authorizer: Authorizer,
    /// The request itself, for access checks about it.
    about: Question,
    /// Rest of the cost budget.
    left: u64,
    /// Sizes of the variables, measured on demand.
    sizes: Option<BTreeMap<String, Declared>>,
}

impl Scope {
    /// Creates a scope without variables of a policy.
    pub fn new(variables: Vec<(&'static str, Value)>, authorizer: Authorizer, about: Question) -> Self {
        Self { variables, own: Vec::new(), authorizer, about, left: MOST_FOR_A_POLICY, sizes: None }
    }

    /// Sets the cost budget of the next evaluations.
    pub fn allow(&mut self, most: u64) {
        self.left = most;
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: Value) {
        if let Some((_, slot)) = self.variables.iter_mut().find(|(known, _)| *known == name) {
            *slot = value;
        }
        self.sizes = None;
    }

    /// Declares the variables of a policy, in order; each may use those before it.
    pub fn define(&mut self, variables: &[Value]) {
        let own = |variable: &Value| Own {
            name: text(variable, &["name"]).to_owned(),
            source: text(variable, &["expression"]).to_owned(),
            found: None,
        };
        self.own = variables.iter().map(own).collect();
        self.sizes = None;
    }

    /// Compiles an expression and evaluates it with `how`.
    pub fn evaluate<T>(
        &mut self,
        source: &str,
        compile: fn(&str) -> Result<Expression, String>,
        how: impl FnOnce(&Expression, Inputs<'_>) -> Result<T, String>,
    ) -> Result<T, Wrong> {
        let failed = |why: String| Wrong::This(format!("expression '{source}' resulted in error: {why}"));
        let expression = compile(source).map_err(|why| Wrong::This(format!("compilation error: {why}")))?;
        self.prepare(&expression, self.own.len())?;
        self.spend(&expression).map_err(|why| why.map_or(Wrong::Spent, failed))?;
        let composed: Vec<(String, CelValue)> =
            self.own.iter().filter_map(|own| Some((own.name.clone(), own.found.clone()?.ok()?))).collect();
        how(&expression, self.inputs(&self.variables(), &composed)).map_err(|why| failed(self.cause(&expression, why)))
    }

    /// Evaluates those of the first `count` policy variables that an expression may use.
    fn prepare(&mut self, expression: &Expression, count: usize) -> Result<(), Wrong> {
        if !expression.mentions(VARIABLES) {
            return Ok(());
        }
        for i in 0..count {
            let Some(own) = self.own.get(i).filter(|own| own.found.is_none()) else { continue };
            if !expression.may_use(VARIABLES, &own.name) {
                continue;
            }
            let found = match Expression::compile(&own.source) {
                Err(why) => Err(why),
                Ok(of) => {
                    self.prepare(&of, i)?;
                    match self.spend(&of) {
                        Err(None) => return Err(Wrong::Spent),
                        Err(Some(why)) => Err(why),
                        Ok(()) => {
                            let composed: Vec<(String, CelValue)> = self.own[..i]
                                .iter()
                                .filter_map(|own| Some((own.name.clone(), own.found.clone()?.ok()?)))
                                .collect();
                            let variables = self.variables();
                            let value = of.evaluate_for(self.inputs(&variables, &composed));
                            value.map_err(|why| self.cause(&of, why))
                        }
                    }
                }
            };
            if let Some(own) = self.own.get_mut(i) {
                own.found = Some(found);
            }
            self.sizes = None;
        }
        Ok(())
    }

    /// Subtracts the maximum cost of an expression from the budget. Fails without a reason if the budget is too small,
    /// and with one if the expression exceeds the limit of a single evaluation.
    fn spend(&mut self, expression: &Expression) -> Result<(), Option<String>> {
        if self.sizes.is_none() {
            self.sizes = Some(self.measure());
        }
        let cost = self.sizes.as_ref().map_or(0, |sizes| expression.cost_for(sizes));
        if cost > MOST_FOR_A_CALL {
            return Err(Some("operation cancelled: actual cost limit exceeded".to_owned()));
        }
        self.left = self.left.checked_sub(cost).ok_or(None)?;
        Ok(())
    }

    /// Measures the sizes of the variables.
    fn measure(&self) -> BTreeMap<String, Declared> {
        let mut sizes: BTreeMap<String, Declared> =
            self.variables.iter().map(|(name, value)| ((*name).to_owned(), Declared::of(value))).collect();
        let own = self.own.iter().filter_map(|own| {
            // A value that is not JSON has a type that only functions can look into.
            let value = own.found.as_ref()?.as_ref().ok()?.json().ok()?;
            Some((own.name.clone(), Declared::of(&Value::from(value))))
        });
        sizes.insert(VARIABLES.to_owned(), Declared::fields(own.collect()));
        sizes
    }

    fn variables(&self) -> Vec<(&str, &Value)> {
        self.variables.iter().map(|(name, value)| (*name, value)).collect()
    }

    fn inputs<'a>(&'a self, variables: &'a [(&'a str, &'a Value)], own: &'a [(String, CelValue)]) -> Inputs<'a> {
        Inputs { variables, composed: Some(own), authorizer: Some((&self.authorizer, &self.about)) }
    }

    /// Returns the reason of a failed expression. If a policy variable that it uses has failed, that is the reason.
    fn cause(&self, expression: &Expression, why: String) -> String {
        let failed = |own: &&Own| matches!(own.found, Some(Err(_))) && expression.may_use(VARIABLES, &own.name);
        match self.own.iter().find(failed) {
            Some(Own { name, found: Some(Err(of)), .. }) => {
                format!("composited variable {name:?} fails to evaluate: {of}")
            }
            _ => why,
        }
    }

    /// Evaluates a boolean expression.
    pub fn holds(&mut self, source: &str) -> Result<bool, Wrong> {
        match self.evaluate(source, Expression::compile, Expression::evaluate_for)? {
            CelValue::Bool(is) => Ok(is),
            _ => Err(Wrong::This(format!("expression '{source}' resulted in no boolean"))),
        }
    }

    /// Evaluates match conditions. A false condition takes precedence over one that fails.
    pub fn holds_all(&mut self, conditions: &[Value]) -> Result<bool, String> {
        self.allow(MOST_FOR_CONDITIONS);
        let mut failed = Ok(true);
        for condition in conditions {
            match self.holds(text(condition, &["expression"])) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(Wrong::Spent) => return Err(Wrong::Spent.text()),
                Err(why) => failed = failed.and(Err(why.text())),
            }
        }
        failed
    }

    /// Returns the message of a failed validation.
    pub fn message(&mut self, validation: &Value) -> Result<String, Wrong> {
        let by_expression = text(validation, &["messageExpression"]);
        let mut wording = String::new();
        if !by_expression.trim().is_empty() {
            match self.evaluate(by_expression, Expression::compile, Expression::evaluate_for) {
                Ok(CelValue::String(text)) => wording = text.trim().to_owned(),
                Err(Wrong::Spent) => return Err(Wrong::Spent),
                Ok(_) | Err(Wrong::This(_)) => {}
            }
        }
        if wording.len() > LONGEST_MESSAGE || wording.contains('\n') {
            wording.clear();
        }
        if wording.is_empty() {
            wording = text(validation, &["message"]).trim().to_owned();
        }
        if wording.is_empty() {
            wording = format!("failed expression: {}", text(validation, &["expression"]).trim());
        }
        Ok(wording)
    }

    /// Evaluates the audit annotations of a policy. Returns them by key, and the errors.
    pub fn annotations(&mut self, spec: &Value) -> (Vec<(String, String)>, Vec<String>) {
        self.allow(MOST_FOR_A_POLICY);
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for annotation in list(spec, &["auditAnnotations"]) {
            let source = text(annotation, &["valueExpression"]).trim();
            match self.evaluate(source, Expression::compile, Expression::evaluate_for) {
                Ok(CelValue::String(wording)) if wording.trim().is_empty() => {}
                Ok(CelValue::String(wording)) => {
                    let mut wording = wording.trim().to_owned();
                    wording.truncate(wording.floor_char_boundary(LONGEST_ANNOTATION));
                    found.push((text(annotation, &["key"]).to_owned(), wording));
                }
                Ok(CelValue::Null) => {}
                Ok(other) => failed.push(format!(
                    "valueExpression '{source}' resulted in unsupported return type: {}. Return type must be either \
                     string or null.",
                    other.type_of()
                )),
                Err(Wrong::Spent) => {
                    failed.push(Wrong::Spent.text());
                    break;
                }
                Err(why) => failed.push(why.text()),
            }
        }
        (found, failed)
    }
}

/// Maximum length of a message from an expression, in bytes.
const LONGEST_MESSAGE: usize = 5 << 10;
/// Maximum length of an annotation, in bytes; longer ones are cut.
const LONGEST_ANNOTATION: usize = 10 << 10;
