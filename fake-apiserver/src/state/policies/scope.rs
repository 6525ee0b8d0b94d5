//! The variables that the expressions of a policy use, and what evaluating them may cost
//! (apiserver `admission/plugin/cel/{activation,composition}.go`).

use std::collections::BTreeMap;

use substrate::json::Value;

use crate::cel::check::Declared;
use crate::cel::{Authorizer, CelValue, Expression, Inputs, Question};
use crate::state::value::{list, text};

/// What one evaluation may cost, in units of a simple step.
const MOST_FOR_A_CALL: u64 = 1_000_000;
/// What the expressions of one policy, or of one mutation, may cost for one request and one parameter.
pub(in crate::state) const MOST_FOR_A_POLICY: u64 = 10_000_000;
/// What the conditions of a policy or of a webhook may cost.
pub(in crate::state) const MOST_FOR_CONDITIONS: u64 = 2_500_000;
/// The variable whose fields the policy computes.
const VARIABLES: &str = "variables";

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::state) enum Wrong {
    /// This one has none.
    This(String),
    /// No more of them may be evaluated.
    Spent,
}

impl Wrong {
    /// The message.
    pub fn text(self) -> String {
        match self {
            Self::This(why) => why,
            Self::Spent => "validation failed due to running out of cost budget, no further validation rules will be \
                            run"
            .to_owned(),
        }
    }
}

/// A variable of the policy's own. It is evaluated when an expression first asks for it.
#[derive(Debug)]
struct Own {
    name: String,
    source: String,
    found: Option<Result<CelValue, String>>,
}

/// The variables of one evaluation, and whom it asks about access.
#[derive(Debug)]
pub(in crate::state) struct Scope {
    variables: Vec<(&'static str, Value)>,
    own: Vec<Own>,
    authorizer: Authorizer,
    /// What the request is about.
    about: Question,
    /// What may still be spent.
    left: u64,
    /// The sizes of the variables, once something asked for them.
    sizes: Option<BTreeMap<String, Declared>>,
}

impl Scope {
    /// A scope without variables of the policy's own.
    pub fn new(variables: Vec<(&'static str, Value)>, authorizer: Authorizer, about: Question) -> Self {
        Self { variables, own: Vec::new(), authorizer, about, left: MOST_FOR_A_POLICY, sizes: None }
    }

    /// What the evaluations from now on may cost together.
    pub fn allow(&mut self, most: u64) {
        self.left = most;
    }

    /// Gives a variable another value.
    pub fn set(&mut self, name: &str, value: Value) {
        if let Some((_, slot)) = self.variables.iter_mut().find(|(known, _)| *known == name) {
            *slot = value;
        }
        self.sizes = None;
    }

    /// The variables of the policy's own, in their order; each may use those before it.
    pub fn define(&mut self, variables: &[Value]) {
        let own = |variable: &Value| Own {
            name: text(variable, &["name"]).to_owned(),
            source: text(variable, &["expression"]).to_owned(),
            found: None,
        };
        self.own = variables.iter().map(own).collect();
        self.sizes = None;
    }

    /// Evaluates an expression by `how`.
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

    /// Evaluates those of the first `count` variables of the policy's own that an expression may use.
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

    /// Takes what an expression costs at most from what is left: nothing when there is not so much, and a reason when no
    /// single expression may cost so much.
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

    /// How large the variables are.
    fn measure(&self) -> BTreeMap<String, Declared> {
        let mut sizes: BTreeMap<String, Declared> =
            self.variables.iter().map(|(name, value)| ((*name).to_owned(), Declared::of(value))).collect();
        let own = self.own.iter().filter_map(|own| {
            // What is no tree is of a type that only functions look into.
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

    /// Why an expression failed: a variable that it uses, where that has no value.
    fn cause(&self, expression: &Expression, why: String) -> String {
        let failed = |own: &&Own| matches!(own.found, Some(Err(_))) && expression.may_use(VARIABLES, &own.name);
        match self.own.iter().find(failed) {
            Some(Own { name, found: Some(Err(of)), .. }) => {
                format!("composited variable {name:?} fails to evaluate: {of}")
            }
            _ => why,
        }
    }

    /// Whether an expression is true.
    pub fn holds(&mut self, source: &str) -> Result<bool, Wrong> {
        match self.evaluate(source, Expression::compile, Expression::evaluate_for)? {
            CelValue::Bool(is) => Ok(is),
            _ => Err(Wrong::This(format!("expression '{source}' resulted in no boolean"))),
        }
    }

    /// Whether all conditions hold. One that is false says more than one that fails.
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

    /// What is said of a validation that does not hold.
    pub fn message(&mut self, validation: &Value) -> Result<String, Wrong> {
        let by_expression = text(validation, &["messageExpression"]);
        let mut said = String::new();
        if !by_expression.trim().is_empty() {
            match self.evaluate(by_expression, Expression::compile, Expression::evaluate_for) {
                Ok(CelValue::String(text)) => said = text.trim().to_owned(),
                Err(Wrong::Spent) => return Err(Wrong::Spent),
                Ok(_) | Err(Wrong::This(_)) => {}
            }
        }
        if said.len() > LONGEST_MESSAGE || said.contains('\n') {
            said.clear();
        }
        if said.is_empty() {
            said = text(validation, &["message"]).trim().to_owned();
        }
        if said.is_empty() {
            said = format!("failed expression: {}", text(validation, &["expression"]).trim());
        }
        Ok(said)
    }

    /// The annotations of the audit event that a policy asks for, by their keys, and what is wrong with others.
    pub fn annotations(&mut self, spec: &Value) -> (Vec<(String, String)>, Vec<String>) {
        self.allow(MOST_FOR_A_POLICY);
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for annotation in list(spec, &["auditAnnotations"]) {
            let source = text(annotation, &["valueExpression"]).trim();
            match self.evaluate(source, Expression::compile, Expression::evaluate_for) {
                Ok(CelValue::String(said)) if said.trim().is_empty() => {}
                Ok(CelValue::String(said)) => {
                    let mut said = said.trim().to_owned();
                    said.truncate(said.floor_char_boundary(LONGEST_ANNOTATION));
                    found.push((text(annotation, &["key"]).to_owned(), said));
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

/// The longest message that an expression may give, in bytes.
const LONGEST_MESSAGE: usize = 5 << 10;
/// The longest annotation, in bytes; what is longer is cut.
const LONGEST_ANNOTATION: usize = 10 << 10;
