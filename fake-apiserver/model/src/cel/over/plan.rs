//! Finds the parts of an expression that depend on a list only through expressions about single items.

use cel::IdedExpr;
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

use super::super::paths::free_in;

/// An expression about one item, and the variable for the item.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) name: String,
    pub(super) of: IdedExpr,
}

/// Rule that gives the value of a part from the results for its items. A number is the index of an [`Ask`].
#[derive(Debug)]
pub(super) enum How {
    All(usize),
    Exists(usize),
    ExistsOne(usize),
    Map(usize),
    Items,
    Size,
    At(i64),
}

/// A part of the expression whose value follows from results for single items.
#[derive(Debug)]
pub(super) struct Part {
    /// Indexes of the [`Ask`]s that are true for all items of the part.
    pub(super) filters: Vec<usize>,
    pub(super) how: How,
}

/// The parts of an expression over a list, and the rest.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) asks: Vec<Ask>,
    pub(super) parts: Vec<Part>,
    /// The expression, in which each part is replaced by its name.
    pub(super) rest: IdedExpr,
    /// True if the rest needs the list as a whole.
    pub(super) whole: bool,
    /// Variables of the macros around the current node.
    bound: Vec<String>,
}

impl Plan {
    pub(super) fn of(expression: &IdedExpr, list: &str) -> Self {
        let mut plan = Self::default();
        let mut rest = expression.clone();
        plan.rewrite(&mut rest, list);
        plan.whole = free_in(&rest).contains(list);
        plan.rest = rest;
        plan
    }

    /// Returns the name of a part in the rest. No name in the source of an expression can begin with `@`.
    pub(super) fn name(part: usize) -> String {
        format!("@part{part}")
    }

    fn rewrite(&mut self, expr: &mut IdedExpr, list: &str) {
        if let Some(part) = self.part(&expr.expr, list) {
            expr.expr = Expr::Ident(Self::name(self.parts.len()));
            self.parts.push(part);
            return;
        }
        match &mut expr.expr {
            Expr::Comprehension(all) => {
                self.rewrite(&mut all.iter_range, list);
                self.rewrite(&mut all.accu_init, list);
                // A macro may declare a variable with the name of the list.
                let own: Vec<&String> = [&all.iter_var, &all.accu_var].into_iter().chain(&all.iter_var2).collect();
                if !own.iter().any(|name| *name == list) {
                    let outside = self.bound.len();
                    self.bound.extend(own.into_iter().cloned());
                    for expr in [&mut all.loop_cond, &mut all.loop_step, &mut all.result] {
                        self.rewrite(expr, list);
                    }
                    self.bound.truncate(outside);
                }
            }
            Expr::Call(call) => {
                call.target.as_deref_mut().into_iter().chain(&mut call.args).for_each(|expr| self.rewrite(expr, list));
            }
            Expr::List(made) => made.elements.iter_mut().for_each(|expr| self.rewrite(expr, list)),
            Expr::Select(select) => self.rewrite(&mut select.operand, list),
            Expr::Map(made) => made.entries.iter_mut().for_each(|entry| self.enter(&mut entry.expr, list)),
            Expr::Struct(made) => made.entries.iter_mut().for_each(|entry| self.enter(&mut entry.expr, list)),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        }
    }

    fn enter(&mut self, entry: &mut EntryExpr, list: &str) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.rewrite(&mut entry.key, list);
                self.rewrite(&mut entry.value, list);
            }
            EntryExpr::StructField(field) => self.rewrite(&mut field.value, list),
        }
    }

    fn part(&mut self, expr: &Expr, list: &str) -> Option<Part> {
        let known = self.asks.len();
        let part = match expr {
            Expr::Comprehension(all) => self.of_macro(all, list),
            Expr::Call(call) if call.func_name == "size" => match (call.target.as_deref(), &call.args[..]) {
                (Some(of), []) | (None, [of]) => self.source(&of.expr, list).map(|filters| (filters, How::Size)),
                _ => None,
            },
            Expr::Call(call) if call.func_name == operators::INDEX => match &call.args[..] {
                [of, IdedExpr { expr: Expr::Literal(LiteralValue::Int(at)), .. }] => {
                    self.source(&of.expr, list).map(|filters| (filters, How::At(*at.inner())))
                }
                _ => None,
            },
            _ => None,
        };
        if part.is_none() {
            self.asks.truncate(known);
        }
        part.map(|(filters, how)| Part { filters, how })
    }

    /// Returns the indexes of the [`Ask`]s that select the items of `expr`, if it is the list or a filter of the list.
    fn source(&mut self, expr: &Expr, list: &str) -> Option<Vec<usize>> {
        match expr {
            Expr::Ident(name) => (name == list).then(Vec::new),
            Expr::Comprehension(all) => match self.of_macro(all, list)? {
                (filters, How::Items) => Some(filters),
                _ => None,
            },
            _ => None,
        }
    }

    fn of_macro(&mut self, all: &ComprehensionExpr, list: &str) -> Option<(Vec<usize>, How)> {
        if all.iter_var2.is_some() {
            return None;
        }
        let mut filters = self.source(&all.iter_range.expr, list)?;
        let Expr::Call(step) = &all.loop_step.expr else { return None };
        let is_accu = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if *name == all.accu_var);
        // The forms to which the macros of CEL expand.
        let (of, how): (&IdedExpr, fn(usize) -> How) = match (step.func_name.as_str(), &step.args[..]) {
            (operators::LOGICAL_AND, [accu, of]) if is_accu(accu) => (of, How::All),
            (operators::LOGICAL_OR, [accu, of]) if is_accu(accu) => (of, How::Exists),
            (operators::ADD, [accu, made]) if is_accu(accu) => (only(made)?, How::Map),
            (operators::CONDITIONAL, [of, then, other]) if is_accu(other) => {
                let Expr::Call(then) = &then.expr else { return None };
                match (then.func_name.as_str(), &then.args[..]) {
                    (operators::ADD, [accu, IdedExpr { expr: Expr::Literal(LiteralValue::Int(_)), .. }])
                        if is_accu(accu) =>
                    {
                        (of, How::ExistsOne)
                    }
                    (operators::ADD, [accu, made])
                        if is_accu(accu) && matches!(&only(made)?.expr, Expr::Ident(name) if *name == all.iter_var) =>
                    {
                        (of, |_| How::Items)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        let others = free_in(of);
        let of_the_item_alone = |name: &String| *name == all.iter_var || (name != list && !self.bound.contains(name));
        if !others.iter().all(of_the_item_alone) {
            return None;
        }
        let ask = self.asks.len();
        self.asks.push(Ask { name: all.iter_var.clone(), of: of.clone() });
        let how = how(ask);
        if matches!(how, How::Items) {
            filters.push(ask);
        }
        Some((filters, how))
    }
}

/// Returns the element of a list literal that has exactly one.
fn only(expr: &IdedExpr) -> Option<&IdedExpr> {
    match &expr.expr {
        Expr::List(made) if made.optional_indices.is_empty() => match &made.elements[..] {
            [one] => Some(one),
            _ => None,
        },
        _ => None,
    }
}
