//! Maximum cost of an expression, estimated before there are values (cel-go `checker/cost.go`, apiserver
//! `pkg/cel/library/cost.go`).
//!
//! Costs are in CEL's cost units, one for a simple step. An unbounded value has the maximum cost.

use std::collections::BTreeMap;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

use super::declared::Declared;
use super::{Checked, Type};
use crate::cel::{Expression, unescape};

/// Cost of reading a character.
const CHARACTER: f64 = 0.1;
/// Cost of a character of a regular expression.
const PATTERN: f64 = 0.25;
/// Length of the longest pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// Cost of an access check.
const AUTHORIZATION: u64 = 350_000;

impl Expression {
    /// Returns the maximum cost if the variables are as `declared`.
    pub fn most_cost(&self, checked: &Checked, declared: &Declared) -> u64 {
        self.cost_of(checked, &|_| Some(declared), Size::UNKNOWN)
    }

    /// Returns the maximum cost for given values, each declared by [`Declared::of`]. An unknown part counts as large as
    /// all of them together.
    pub fn cost_for(&self, values: &BTreeMap<String, Declared>) -> u64 {
        let types: Vec<(&str, Type)> =
            values.iter().map(|(name, declared)| (name.as_str(), declared.of.clone())).collect();
        let checked = self.types_as_far_as_known(&types);
        let most = values.values().fold(0_u64, |sum, declared| sum.saturating_add(declared.least_bytes));
        self.cost_of(&checked, &|name| values.get(name), Size(0, most))
    }

    fn cost_of<'a>(&'a self, checked: &'a Checked, roots: Roots<'a>, unknown: Size) -> u64 {
        let mut coster = Coster { checked, roots, unknown, known: BTreeMap::new(), scopes: Vec::new() };
        coster.cost(self.program.expression())
    }
}

/// Declaration of each variable.
type Roots<'a> = &'a dyn Fn(&str) -> Option<&'a Declared>;

/// Minimum and maximum of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size(u64, u64);

impl Size {
    const UNKNOWN: Self = Self(0, u64::MAX);

    fn fixed(size: u64) -> Self {
        Self(size, size)
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0), self.1.saturating_add(other.1))
    }

    fn times(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0), self.1.saturating_mul(other.1))
    }

    fn or(self, other: Self) -> Self {
        Self(self.0.min(other.0), self.1.max(other.1))
    }

    /// Returns the maximum cost of processing all of it.
    fn at(self, each: f64) -> u64 {
        // The conversion saturates.
        (self.1 as f64 * each).ceil() as u64
    }
}

/// Sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entry {
    is_list: bool,
    key: Size,
    value: Size,
}

/// Knowledge about a part of an expression, or about a variable.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Its path, starting with a variable's name.
    path: Vec<String>,
    size: Option<Size>,
    entry: Option<Entry>,
}

struct Coster<'a> {
    checked: &'a Checked,
    roots: Roots<'a>,
    /// Size of an unknown value.
    unknown: Size,
    known: BTreeMap<u64, Known>,
    /// Variables of macros; the innermost is last.
    scopes: Vec<(String, Known)>,
}

impl Coster<'_> {
    fn of(&self, expr: &IdedExpr) -> &Type {
        self.checked.of(expr.id)
    }

    fn local(&self, name: &str) -> Option<&Known> {
        self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, known)| known)
    }

    fn path(&self, expr: &IdedExpr) -> Vec<String> {
        let local = if let Expr::Ident(name) = &expr.expr { self.local(name) } else { None };
        local.or_else(|| self.known.get(&expr.id)).map(|known| known.path.clone()).unwrap_or_default()
    }

    fn set_path(&mut self, expr: &IdedExpr, path: Vec<String>) {
        self.known.entry(expr.id).or_default().path = path;
    }

    /// Returns the path of a part of an expression.
    fn below(&self, expr: &IdedExpr, step: &str) -> Vec<String> {
        let mut path = self.path(expr);
        path.push(step.to_owned());
        path
    }

    /// Returns the declaration at a path.
    fn declaration(&self, path: &[String]) -> Option<&Declared> {
        let (variable, steps) = path.split_first()?;
        if variable.starts_with('@') {
            return None;
        }
        let mut at = (self.roots)(variable)?;
        for step in steps {
            at = match step.as_str() {
                "@items" | "@values" => at.item.as_deref()?,
                "@keys" => at.key.as_deref()?,
                name => at.fields.get(name)?,
            };
        }
        Some(at)
    }

    /// Returns the declared size at a path.
    fn declared(&self, path: &[String]) -> Option<Size> {
        Some(Size(0, self.declaration(path)?.most))
    }

    fn size(&self, expr: &IdedExpr) -> Option<Size> {
        if let Some(size) = self.known.get(&expr.id).and_then(|known| known.size) {
            return Some(size);
        }
        match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => return Some(Size::fixed(text.inner().chars().count() as u64)),
            Expr::Literal(LiteralValue::Bytes(bytes)) => return Some(Size::fixed(bytes.inner().len() as u64)),
            Expr::Literal(_) => return Some(Size::fixed(1)),
            Expr::List(list) => return Some(Size::fixed(list.elements.len() as u64)),
            Expr::Map(map) => return Some(Size::fixed(map.entries.len() as u64)),
            _ => {}
        }
        if let Some(size) = self.declared(&self.path(expr)) {
            return Some(size);
        }
        if self.of(expr).is_scalar() {
            return Some(Size::fixed(1));
        }
        let Expr::Ident(name) = &expr.expr else { return None };
        self.local(name).and_then(|known| known.size)
    }

    fn size_or_unknown(&self, expr: &IdedExpr) -> Size {
        self.size(expr).unwrap_or(self.unknown)
    }

    fn set_size(&mut self, expr: &IdedExpr, size: Option<Size>) {
        if size.is_some() {
            self.known.entry(expr.id).or_default().size = size;
        }
    }

    /// Returns true if a range is a list, by its type or by its declaration.
    fn is_list(&self, range: &IdedExpr) -> bool {
        match self.of(range) {
            Type::List(_) => true,
            Type::Dyn => self.declaration(&self.path(range)).is_some_and(|at| matches!(at.of, Type::List(_))),
            _ => false,
        }
    }

    fn entry(&self, expr: &IdedExpr) -> Option<Entry> {
        let own = self.known.get(&expr.id).and_then(|known| known.entry);
        let Expr::Ident(name) = &expr.expr else { return own };
        own.or_else(|| self.local(name).and_then(|known| known.entry))
    }

    fn set_entry(&mut self, expr: &IdedExpr, entry: Option<Entry>) {
        if entry.is_some() {
            self.known.entry(expr.id).or_default().entry = entry;
        }
    }

    fn cost(&mut self, expr: &IdedExpr) -> u64 {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => 0,
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |known| known.path.clone());
                self.set_path(expr, path);
                1
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                let looked = matches!(self.of(&select.operand), Type::Map(..) | Type::Object(_) | Type::Param(_));
                let property = unescape(&select.field).unwrap_or_else(|| select.field.clone());
                let path = self.below(&select.operand, &property);
                self.set_path(expr, path);
                operand.saturating_add(u64::from(looked))
            }
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => {
                let (mut sum, mut item) = (10_u64, None::<Size>);
                for element in &list.elements {
                    sum = sum.saturating_add(self.cost(element));
                    let size = self.size_or_unknown(element);
                    item = Some(item.map_or(size, |item| item.or(size)));
                }
                let value = item.unwrap_or(Size::fixed(0));
                self.set_entry(expr, Some(Entry { is_list: true, key: Size::fixed(1), value }));
                sum
            }
            Expr::Map(map) => {
                let (mut sum, mut sizes) = (30_u64, None::<(Size, Size)>);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    sum = sum.saturating_add(self.cost(&entry.key)).saturating_add(self.cost(&entry.value));
                    let (key, value) = (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
                    sizes = Some(sizes.map_or((key, value), |(k, v)| (k.or(key), v.or(value))));
                }
                let (key, value) = sizes.unwrap_or((Size::fixed(0), Size::fixed(0)));
                self.set_entry(expr, Some(Entry { is_list: false, key, value }));
                sum
            }
            Expr::Struct(made) => {
                let mut sum = 40_u64;
                for entry in &made.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        sum = sum.saturating_add(self.cost(&field.value));
                    }
                }
                sum
            }
            Expr::Comprehension(all) => self.comprehension(expr, all),
        }
    }

    fn comprehension(&mut self, expr: &IdedExpr, all: &ComprehensionExpr) -> u64 {
        let mut sum = self.cost(&all.iter_range).saturating_add(self.cost(&all.accu_init));
        let accumulated = Known {
            path: self.path(&all.accu_init),
            size: self.size(&all.accu_init),
            entry: self.entry(&all.accu_init),
        };
        let begun_empty = matches!(&all.iter_range.expr, Expr::List(list) if list.elements.is_empty());
        let never = matches!(&all.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(is)) if !is.inner());
        self.scopes.push((all.accu_var.clone(), accumulated));
        // A bound variable, not a loop.
        if begun_empty && never && all.accu_var != "@result" {
            sum = sum.saturating_add(self.cost(&all.result));
            let (size, entry) = (self.size(&all.result), self.entry(&all.result));
            self.scopes.pop();
            self.set_size(expr, size);
            self.set_entry(expr, entry);
            return sum;
        }
        let entry = self.entry(&all.iter_range);
        let is_list = entry.map_or(self.is_list(&all.iter_range), |entry| entry.is_list);
        let item = Known {
            path: self.below(&all.iter_range, if is_list { "@items" } else { "@keys" }),
            size: entry.map(|entry| if is_list { entry.value } else { entry.key }),
            entry: None,
        };
        self.scopes.push((all.iter_var.clone(), item));
        let each = self.cost(&all.loop_cond).saturating_add(self.cost(&all.loop_step));
        let gathered = self.entry(&all.loop_step);
        self.scopes.pop();
        sum = sum.saturating_add(self.cost(&all.result));
        self.scopes.pop();
        let count = self.size_or_unknown(&all.iter_range);
        sum = sum.saturating_add(count.1.saturating_mul(each));
        match &all.accu_init.expr {
            Expr::Literal(_) => {
                let size = self.size(&all.accu_init);
                self.set_size(expr, size);
            }
            Expr::List(_) | Expr::Map(_) => {
                self.set_size(expr, Some(count));
                self.set_entry(expr, gathered);
            }
            _ => {}
        }
        sum
    }

    fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> u64 {
        let args: Vec<u64> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let all = args.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        // The namespace before a function of a library is not a value.
        let named = call.target.as_deref().is_some_and(|target| {
            matches!(&target.expr, Expr::Ident(name) if super::super::library::NAMESPACES.contains(&name.as_str())
                || name == "optional" && self.local(name).is_none())
        });
        let target = call.target.as_deref().filter(|_| !named);
        let before = target.map_or(0, |target| self.cost(target));
        let (own, size) = self.function(expr, call, target);
        let size = size.or_else(|| self.size(expr));
        self.set_size(expr, size);
        let with_args = match call.func_name.as_str() {
            "_?_:_" => {
                args.first().copied().unwrap_or(0).saturating_add(args.iter().skip(1).copied().max().unwrap_or(0))
            }
            _ => all,
        };
        before.saturating_add(own).saturating_add(with_args)
    }

    /// Returns the cost of a function itself, and the size of its result if the function determines it.
    fn function(&mut self, expr: &IdedExpr, call: &CallExpr, target: Option<&IdedExpr>) -> (u64, Option<Size>) {
        let args = &call.args[..];
        let of_target = target.map(|target| self.size_or_unknown(target)).unwrap_or(self.unknown);
        let size = |i: usize| args.get(i).map_or(self.unknown, |arg| self.size_or_unknown(arg));
        let is_list = |expr: Option<&IdedExpr>| expr.is_some_and(|expr| matches!(self.of(expr), Type::List(_)));
        match (call.func_name.as_str(), target.is_some()) {
            ("_&&_" | "_||_", _) => (0, None),
            // An optional field of a given value. Upstream's estimate, which decides on the refusal of a schema,
            // ignores it.
            (operators::OPT_SELECT, _) if self.unknown != Size::UNKNOWN => {
                if let [of, name] = args
                    && let Expr::Literal(LiteralValue::String(name)) = &name.expr
                {
                    let property = unescape(name.inner()).unwrap_or_else(|| name.inner().to_owned());
                    let path = self.below(of, &property);
                    self.set_path(expr, path);
                }
                (1, None)
            }
            ("orValue" | "value", true) if self.unknown != Size::UNKNOWN => {
                let Some(target) = target else { return (1, None) };
                let path = self.path(target);
                let missing = !path.is_empty() && self.declaration(&path).is_none();
                let there = if missing { Size::fixed(0) } else { of_target };
                self.set_path(expr, path);
                (1, Some(args.first().map_or(there, |other| there.or(self.size_or_unknown(other)))))
            }
            ("_?_:_", _) => {
                let entries =
                    args.get(1).and_then(|arg| self.entry(arg)).zip(args.get(2).and_then(|arg| self.entry(arg)));
                let entry = entries.map(|(a, b)| Entry { key: a.key.or(b.key), value: a.value.or(b.value), ..a });
                let size = size(1).or(size(2));
                self.set_entry(expr, entry);
                (0, Some(size))
            }
            ("isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf", true) => {
                let Some(target) = target.filter(|target| is_list(Some(target))) else {
                    return (of_target.at(CHARACTER), None);
                };
                let of_item = match self.of(target) {
                    Type::List(of) if matches!(**of, Type::String | Type::Bytes) => {
                        let path = self.below(target, "@items");
                        let known = self.path(target).first().and_then(|_| self.declared(&path));
                        known.unwrap_or(self.unknown).at(CHARACTER).saturating_add(1)
                    }
                    _ => 1,
                };
                (of_target.1.saturating_mul(of_item), None)
            }
            ("url", false) => (size(0).at(CHARACTER), Some(size(0))),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", true) => (of_target.at(CHARACTER), Some(of_target)),
            ("replace", true) => (of_target.at(2.0 * CHARACTER), Some(replaced(of_target, size(0), size(1)))),
            ("split", true) => {
                let most = match args.get(1).map(|arg| &arg.expr) {
                    Some(Expr::Literal(LiteralValue::Int(most))) => u64::try_from(*most.inner()).unwrap_or(u64::MAX),
                    _ => of_target.1,
                };
                (of_target.at(2.0 * CHARACTER), Some(Size(0, most)))
            }
            ("join", true) => {
                let path = target.map(|target| self.below(target, "@items")).unwrap_or_default();
                let item = self.declared(&path).unwrap_or(self.unknown);
                let between = Size(of_target.0.saturating_sub(1), of_target.1.saturating_sub(1));
                let separators = if args.is_empty() { Size::fixed(0) } else { size(0).times(between) };
                let whole = of_target.times(item).plus(separators);
                (whole.at(CHARACTER), Some(whole))
            }
            ("find" | "findAll", true) => {
                let text = of_target.plus(Size::fixed(1)).at(CHARACTER);
                (text.saturating_mul(size(0).at(PATTERN)), Some(Size(0, of_target.1)))
            }
            ("check", true) => (AUTHORIZATION, None),
            ("matches", true) => {
                let text = of_target.plus(Size::fixed(1)).at(CHARACTER);
                (text.saturating_mul(size(0).at(PATTERN)), None)
            }
            ("contains", true) => (of_target.at(CHARACTER).saturating_mul(size(0).at(CHARACTER)), None),
            ("startsWith" | "endsWith", true) => (size(0).at(CHARACTER), None),
            ("format", true) => (of_target.at(CHARACTER), None),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", false) => {
                (size(0).at(CHARACTER), None)
            }
            ("isCanonical", false) => (size(0).at(2.0 * CHARACTER), None),
            ("containsIP" | "containsCIDR", true) => {
                let more = if call.func_name == "containsCIDR" { Size(4, 16).at(CHARACTER) + 1 } else { 0 };
                let is_text = args.first().is_some_and(|arg| *self.of(arg) == Type::String);
                let text = if is_text { size(0).at(CHARACTER) } else { 0 };
                (Size(8, 32).at(CHARACTER).saturating_add(more).saturating_add(text), None)
            }
            ("validate", true) => {
                let text = Size(0, size(0).at(CHARACTER));
                (text.at(FORMAT_PATTERN * PATTERN), None)
            }
            ("quote", false) => {
                (size(0).at(CHARACTER), Some(Size(size(0).0 + 2, size(0).1.saturating_mul(2).saturating_add(2))))
            }
            ("bytes", false) if args.first().is_some_and(|arg| *self.of(arg) == Type::String) => {
                (size(0).at(CHARACTER), Some(Size(size(0).0, size(0).1.saturating_mul(4))))
            }
            ("string", false) if args.first().is_some_and(|arg| *self.of(arg) == Type::Bytes) => {
                (size(0).at(CHARACTER), Some(Size(size(0).0 / 4, size(0).1)))
            }
            ("dyn", false) => (1, args.first().and_then(|arg| self.size(arg))),
            ("@in", _) => (if is_list(args.get(1)) { size(1).1 } else { 1 }, None),
            // There are as many keys as entries.
            ("@keys", _) => {
                let entry = args.first().map(|arg| {
                    let path = self.below(arg, "@keys");
                    let key = self.declared(&path).unwrap_or(Size::fixed(1));
                    Entry { is_list: true, key: Size::fixed(1), value: key }
                });
                let size = size(0);
                self.set_entry(expr, entry);
                (1, Some(size))
            }
            ("_[_]", _) => {
                let Some(of) = args.first() else { return (1, None) };
                let found = self.entry(of).map(|entry| entry.value);
                let step = match self.of(of) {
                    Type::List(_) => "@items",
                    Type::Map(..) | Type::Object(_) => "@values",
                    _ => return (1, found),
                };
                let path = self.below(of, step);
                self.set_path(expr, path);
                (1, found)
            }
            ("_+_", _) => {
                let whole = size(0).plus(size(1));
                match args.first().map(|arg| self.of(arg)) {
                    Some(Type::List(_)) => {
                        let entries = self.entry(&args[0]).zip(args.get(1).and_then(|arg| self.entry(arg)));
                        let entry =
                            entries.map(|(a, b)| Entry { key: a.key.or(b.key), value: a.value.or(b.value), ..a });
                        self.set_entry(expr, entry);
                        (1, Some(whole))
                    }
                    Some(Type::String | Type::Bytes) => (whole.at(CHARACTER), Some(whole)),
                    _ => (1, None),
                }
            }
            ("_==_" | "_!=_", _) => match args.first().map(|arg| self.of(arg)) {
                Some(Type::Opaque(_)) => (1, None),
                _ => (Size(0, size(0).1.min(size(1).1)).at(CHARACTER), None),
            },
            ("_<_" | "_<=_" | "_>_" | "_>=_", _)
                if args.iter().any(|arg| matches!(self.of(arg), Type::String | Type::Bytes)) =>
            {
                (Size(0, size(0).1.min(size(1).1)).at(CHARACTER), None)
            }
            _ => (1, None),
        }
    }
}

/// Returns the size of a string after a replacement.
fn replaced(of: Size, old: Size, new: Size) -> Size {
    let (most, kept) = if old.0 == 0 {
        (of.1.saturating_add(1), of.1)
    } else if new.1 <= old.0 {
        (0, of.1)
    } else {
        ((of.1 as f64 / old.0 as f64).ceil() as u64, 0)
    };
    let (least, left) = if old.1 == 0 {
        (of.0.saturating_add(1), of.0)
    } else if old.1 <= new.0 {
        (0, of.0)
    } else {
        ((of.0 as f64 / old.1 as f64).ceil() as u64, 0)
    };
    Size(least, most).times(new).plus(Size(left, kept))
}
