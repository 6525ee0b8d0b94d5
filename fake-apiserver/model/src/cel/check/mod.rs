//! Type check of expressions: unknown names and fields, and functions with arguments of wrong types (cel-go `checker`).
//!
//! It walks the parser's tree and evaluates nothing.

mod cost;
mod declared;
mod signatures;
mod types;

use std::collections::BTreeMap;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, SourceInfo, operators};

pub use self::declared::Declared;
pub use self::types::Type;
use self::types::{FREE, fits, given, join};
use super::{Expression, unescape};

/// Names of types, which are values, too.
const TYPES: &[&str] = &["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Result of a check: the type of every part of an expression, by its id.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    types: BTreeMap<u64, Type>,
    root: u64,
}

impl Checked {
    /// Returns the type of the whole expression.
    pub fn result(&self) -> &Type {
        self.of(self.root)
    }

    /// Returns the type of a part.
    pub(super) fn of(&self, id: u64) -> &Type {
        self.types.get(&id).unwrap_or(&Type::Dyn)
    }
}

impl Expression {
    /// Checks the expression with the types of its variables.
    ///
    /// # Errors
    /// All errors, in cel-go's words.
    pub fn check_types(&self, variables: &[(&str, Type)]) -> Result<Checked, String> {
        let checker = self.checker(variables);
        if checker.wrong.is_empty() {
            return Ok(self.checked(checker));
        }
        let source = self.program.source_info();
        let mut message: Vec<((usize, usize), String)> =
            checker.wrong.into_iter().map(|(id, why)| (position(source, &self.source, id), why)).collect();
        message.sort();
        let lines: Vec<String> = message.into_iter().map(|(at, why)| shown(&self.source, at, &why)).collect();
        Err(lines.join("\n"))
    }

    /// Returns the types of the parts. A part with an error has an unknown type.
    fn types_as_far_as_known(&self, variables: &[(&str, Type)]) -> Checked {
        self.checked(self.checker(variables))
    }

    fn checker(&self, variables: &[(&str, Type)]) -> Checker {
        let scopes = variables.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
        let mut checker = Checker { scopes, types: BTreeMap::new(), wrong: Vec::new() };
        checker.check(self.program.expression());
        checker
    }

    fn checked(&self, checker: Checker) -> Checked {
        Checked { types: checker.types, root: self.program.expression().id }
    }
}

/// Returns line and column of a part, from 1.
fn position(info: &SourceInfo, source: &str, id: u64) -> (usize, usize) {
    let at = info.offset_for(id).map_or(0, |(start, _)| start as usize);
    let before: Vec<char> = source.chars().take(at).collect();
    let line_start = before.iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
    (before.iter().filter(|c| **c == '\n').count() + 1, before.len() - line_start + 1)
}

/// Formats an error like cel-go, with the line and a mark below the position.
fn shown(source: &str, (line, column): (usize, usize), why: &str) -> String {
    let text = source.lines().nth(line - 1).unwrap_or_default().replace('\t', " ");
    format!("ERROR: <input>:{line}:{column}: {why}\n | {text}\n | {}^", ".".repeat(column - 1))
}

struct Checker {
    /// The variables; the innermost is last.
    scopes: Vec<(String, Type)>,
    types: BTreeMap<u64, Type>,
    wrong: Vec<(u64, String)>,
}

impl Checker {
    fn variable(&self, name: &str) -> Option<&Type> {
        self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, of)| of)
    }

    fn refuse(&mut self, at: u64, why: String) -> Type {
        self.wrong.push((at, why));
        // An unknown type causes no further errors.
        Type::Dyn
    }

    fn check(&mut self, expr: &IdedExpr) -> Type {
        let found = match &expr.expr {
            Expr::Unspecified => Type::Dyn,
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.ident(expr.id, name),
            Expr::Select(select) => self.select(expr.id, select),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => {
                let optional = |i: usize| list.optional_indices.contains(&i);
                let items: Vec<(u64, Type)> = list
                    .elements
                    .iter()
                    .enumerate()
                    .map(|(i, item)| {
                        let of = self.check(item);
                        (item.id, if optional(i) { within(&of) } else { of })
                    })
                    .collect();
                Type::list(self.common(items))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    keys.push((entry.key.id, self.check(&entry.key)));
                    let of = self.check(&entry.value);
                    values.push((entry.value.id, if entry.optional { within(&of) } else { of }));
                }
                let (key, value) = (self.common(keys), self.common(values));
                Type::map(key, value)
            }
            Expr::Struct(made) => {
                for entry in &made.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.check(&field.value);
                    }
                }
                Type::Dyn
            }
            Expr::Comprehension(all) => self.comprehension(all),
        };
        self.types.insert(expr.id, found.clone());
        found
    }

    /// Returns the common type of the items of a literal.
    fn common(&mut self, items: Vec<(u64, Type)>) -> Type {
        let mut items = items.into_iter();
        let Some((_, mut common)) = items.next() else { return FREE };
        for (id, of) in items {
            match join(&common, &of) {
                Some(both) => common = both,
                None => return self.refuse(id, format!("expected type '{common}' but found '{of}'")),
            }
        }
        common
    }

    fn ident(&mut self, id: u64, name: &str) -> Type {
        match self.variable(name) {
            Some(of) => of.clone(),
            None if TYPES.contains(&name) => Type::Of(Box::new(Type::Dyn)),
            None => self.refuse(id, undeclared(name)),
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Type {
        let operand = self.check(&select.operand);
        let of = self.field(id, &operand, &select.field);
        if select.test { Type::Bool } else { of }
    }

    /// Returns the type of a field.
    fn field(&mut self, id: u64, of: &Type, name: &str) -> Type {
        match of {
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Object(fields) => {
                let property = unescape(name);
                match fields.get(property.as_deref().unwrap_or(name)) {
                    Some(of) => of.clone(),
                    None => self.refuse(id, format!("undefined field '{name}'")),
                }
            }
            Type::Optional(of) => {
                let found = self.field(id, of, name);
                if matches!(found, Type::Optional(_)) { found } else { Type::Optional(Box::new(found)) }
            }
            of if *of == Type::AUTHORIZER && name == "requestResource" => Type::REQUEST_RESOURCE,
            other => self.refuse(id, format!("type '{other}' does not support field selection")),
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type {
        if call.func_name == operators::OPT_SELECT
            && let [of, name] = &call.args[..]
        {
            let operand = self.check(of);
            let Expr::Literal(LiteralValue::String(name)) = &name.expr else { return Type::Dyn };
            let found = self.field(id, &operand, name.inner());
            return if matches!(found, Type::Optional(_)) { found } else { Type::Optional(Box::new(found)) };
        }
        // A function of a library, which has a namespace instead of a target.
        if let Some(target) = &call.target
            && let Expr::Ident(namespace) = &target.expr
            && self.variable(namespace).is_none()
        {
            let full = format!("{namespace}.{}", call.func_name);
            if signatures::of(&full, false).next().is_some() {
                let takes: Vec<Type> = call.args.iter().map(|arg| self.check(arg)).collect();
                return self.resolve(id, &full, false, &takes);
            }
        }
        let target = call.target.as_ref().map(|target| self.check(target));
        let member = target.is_some();
        let mut takes: Vec<Type> = target.into_iter().collect();
        takes.extend(call.args.iter().map(|arg| self.check(arg)).collect::<Vec<_>>());
        self.resolve(id, &call.func_name, member, &takes)
    }

    fn resolve(&mut self, id: u64, name: &str, member: bool, takes: &[Type]) -> Type {
        if matches!(name, "_<_" | "_<=_" | "_>_" | "_>=_") {
            return self.compare(id, name, takes);
        }
        let (mut known, mut found) = (false, None::<Type>);
        for signature in signatures::of(name, member) {
            known = true;
            let mut parameters = BTreeMap::new();
            let same = signature.takes.len() == takes.len();
            if same && signature.takes.iter().zip(takes).all(|(wanted, of)| fits(wanted, of, &mut parameters)) {
                let gives = given(&signature.gives, &parameters);
                // An unknown type may match several overloads.
                found = Some(match found {
                    Some(before) => join(&before, &gives).unwrap_or(Type::Dyn),
                    None => gives,
                });
            }
        }
        match found {
            Some(found) => found,
            None if known => self.refuse(id, no_overload(name, member, takes)),
            None => self.refuse(id, undeclared(name)),
        }
    }

    /// Checks a comparison. Numbers of any type can be compared with each other; strings, bytes, booleans, times and
    /// durations with their own type.
    fn compare(&mut self, id: u64, name: &str, takes: &[Type]) -> Type {
        let numbers = |of: &Type| matches!(of, Type::Int | Type::Uint | Type::Double | Type::Dyn | Type::Param(_));
        let fits = match takes {
            [Type::Dyn | Type::Param(_), other] | [other, Type::Dyn | Type::Param(_)] => {
                numbers(other) || is_ordered(other)
            }
            [a, b] => numbers(a) && numbers(b) || a == b && is_ordered(a),
            _ => false,
        };
        if fits { Type::Bool } else { self.refuse(id, no_overload(name, false, takes)) }
    }

    fn comprehension(&mut self, all: &ComprehensionExpr) -> Type {
        let range = self.check(&all.iter_range);
        let init = self.check(&all.accu_init);
        let item = match &range {
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::List(of) => (**of).clone(),
            Type::Map(key, _) => (**key).clone(),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.refuse(all.iter_range.id, why)
            }
        };
        let outside = self.scopes.len();
        self.scopes.push((all.accu_var.clone(), init.clone()));
        self.scopes.push((all.iter_var.clone(), item));
        self.check(&all.loop_cond);
        let step = self.check(&all.loop_step);
        self.scopes.truncate(outside);
        // If the accumulator starts empty, the step has the type of its elements.
        let gathered = match (&init, &step) {
            (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) => step,
            _ => init,
        };
        self.scopes.push((all.accu_var.clone(), gathered));
        let result = self.check(&all.result);
        self.scopes.truncate(outside);
        result
    }
}

/// Returns true if values of a type other than a number are ordered.
fn is_ordered(of: &Type) -> bool {
    matches!(of, Type::String | Type::Bytes | Type::Bool) || [Type::TIMESTAMP, Type::DURATION].contains(of)
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// Returns the type of the value of an optional.
fn within(of: &Type) -> Type {
    match of {
        Type::Optional(of) => (**of).clone(),
        other => other.clone(),
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn no_overload(name: &str, member: bool, takes: &[Type]) -> String {
    let all: Vec<String> = takes.iter().map(ToString::to_string).collect();
    let applied = match all.split_first() {
        Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
        _ => format!("({})", all.join(", ")),
    };
    format!("found no matching overload for '{name}' applied to '{applied}'")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;

    fn check(rule: &str) -> Result<Type, String> {
        let fields = [
            ("n", Type::Int),
            ("text", Type::String),
            ("names", Type::list(Type::String)),
            ("labels", Type::map(Type::String, Type::String)),
            ("any", Type::Dyn),
            ("a-b", Type::Int),
        ];
        let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
        let object = Type::Object(Arc::new(fields));
        let expression = Expression::compile(rule).unwrap();
        expression
            .check_types(&[("self", object.clone()), ("old", Type::Optional(Box::new(object)))])
            .map(|checked| checked.result().clone())
    }

    #[rstest]
    #[case("self.n > 1 && self.text.startsWith('a')", Type::Bool)]
    #[case("self.names.map(x, x.size())", Type::list(Type::Int))]
    #[case("self.names.filter(x, x != '')", Type::list(Type::String))]
    #[case("self.names.exists_one(x, x == self.text) || self.labels.all(k, self.labels[k] == 'x')", Type::Bool)]
    #[case("self.any.what.ever + 1 == 2", Type::Bool)]
    #[case("self.a__dash__b", Type::Int)]
    #[case("has(self.text) ? self.text : 'x'", Type::String)]
    #[case("old.hasValue() ? old.value().n : 3", Type::Int)]
    #[case("old.n.orValue(3)", Type::Int)]
    #[case("self.?n.orValue(3)", Type::Int)]
    #[case("self.labels[?'a'].orValue('b')", Type::String)]
    #[case("old.optMap(o, o.n).orValue(1)", Type::Int)]
    #[case("self.names.transformMap(i, v, v)", Type::map(Type::Int, Type::String))]
    #[case("self.labels.transformList(k, v, k + v)", Type::list(Type::String))]
    #[case("self.names.all(i, v, v.size() > i)", Type::Bool)]
    #[case("type(self.n) == int", Type::Bool)]
    #[case("self.n < 1.5 && 1u < 2", Type::Bool)]
    #[case("format.dns1123Label().validate(self.text).hasValue()", Type::Bool)]
    #[case("self.names.sortBy(x, x.size())[0]", Type::String)]
    #[case("sets.contains(self.names, ['a'])", Type::Bool)]
    #[case("cidr('10.0.0.0/8').ip().family()", Type::Int)]
    #[case("self.n in [1, 2] && 'a' in self.labels && dyn(1) == 'x'", Type::Bool)]
    fn a_valid_rule_has_a_type(#[case] rule: &str, #[case] wanted: Type) {
        assert_eq!(check(rule), Ok(wanted));
    }

    #[rstest]
    #[case("self.nope == 1", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^")]
    #[case("has(self.nope)", "undefined field 'nope'")]
    #[case("self.n.x == 1", "type 'int' does not support field selection")]
    #[case("nope == 1", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')")]
    #[case("self.n == 'a'", "found no matching overload for '_==_' applied to '(int, string)'")]
    #[case("self.n == 1.5", "found no matching overload for '_==_' applied to '(int, double)'")]
    #[case("self.n.startsWith('a')", "found no matching overload for 'startsWith' applied to 'int.(string)'")]
    #[case("self.text + 1 == ''", "found no matching overload for '_+_' applied to '(string, int)'")]
    #[case("self.n.all(x, true)", "expression of type 'int' cannot be range of a comprehension")]
    #[case("self.names.all(x, x > 1)", "found no matching overload for '_>_' applied to '(string, int)'")]
    #[case("[1, 'a'].size() == 2", "expected type 'int' but found 'string'")]
    #[case("self.names['a'] == 'b'", "found no matching overload for '_[_]' applied to '(list(string), string)'")]
    #[case("old.value().nope == 1", "undefined field 'nope'")]
    #[case("self.n && true", "found no matching overload for '_&&_' applied to '(int, bool)'")]
    fn type_errors_have_the_words_of_upstream(#[case] rule: &str, #[case] wanted: &str) {
        let why = check(rule).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    }

    #[test]
    fn all_type_errors_are_reported_in_source_order() {
        let why = check("self.b == 1\n  && self.a == 1").unwrap_err();
        let places: Vec<&str> = why.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:")).collect();
        assert_eq!(places, ["1:5: undefined field 'b'", "2:10: undefined field 'a'"]);
    }

    #[test]
    fn every_function_of_the_libraries_has_a_signature() {
        for name in super::super::library::FUNCTIONS {
            let macros = ["existsOne", "sortBy", "transformList", "transformMap", "transformMapEntry"];
            let known = signatures::SIGNATURES
                .iter()
                .any(|signature| signature.name.rsplit('.').next() == Some(*name) || signature.name == *name);
            assert!(known || macros.contains(name), "{name}");
        }
    }
}
