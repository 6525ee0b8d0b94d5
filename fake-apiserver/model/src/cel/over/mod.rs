//! Evaluates an expression over a list of which few items change between two evaluations. If the body of a macro reads
//! only one item (`self.all(p, p.status.phase == 'Running')`), it is evaluated once for each revision of an item.

mod item;
mod plan;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::common::types::{CelBool, CelInt, CelList};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::{Context, Value as CelValue};
pub use item::Item;
use plan::{How, Part, Plan};

use super::Expression;

/// An expression over a list, with the results for the items of the list.
pub struct Over {
    expression: Arc<Expression>,
    /// Name of the list.
    name: &'static str,
    plan: Plan,
    rows: Vec<Row>,
    asked: u64,
}

/// An item and the results for it.
struct Row {
    item: Arc<Item>,
    answers: Vec<Option<Answer>>,
}

/// Result of an expression for an item.
enum Answer {
    Yes,
    No,
    Value(CelValue),
    /// The expression cannot be evaluated.
    Unclear,
}

/// Error: a part of the expression cannot be evaluated.
struct Unclear;

/// Values by name, without copies.
struct Names(Vec<(String, Arc<dyn Val>)>);

impl VariableResolver for Names {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        self.0.iter().find(|(name, _)| name == variable).map(|(_, value)| CowVal::Borrowed(&**value))
    }
}

impl std::fmt::Debug for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.expression.fmt(f)
    }
}

impl Over {
    /// Prepares the evaluation over lists that the expression calls `name`.
    pub fn new(expression: Arc<Expression>, name: &'static str) -> Self {
        let plan = Plan::of(expression.program.expression(), name);
        Self { expression, name, plan, rows: Vec::new(), asked: 0 }
    }

    /// Returns true or false; `None` if the expression cannot be evaluated for these items, or has another value.
    /// [`Expression::evaluate`] gives the reason.
    pub fn holds<'i>(&mut self, items: impl IntoIterator<Item = &'i Arc<Item>>) -> Option<bool> {
        self.take(items);
        // A panic of the evaluator, which is a foreign crate, counts as an error.
        catch_unwind(AssertUnwindSafe(|| self.evaluate())).unwrap_or(None)
    }

    /// Returns the number of evaluations for a single item so far.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Replaces the list, and keeps the results for the items that are still there.
    fn take<'i>(&mut self, items: impl IntoIterator<Item = &'i Arc<Item>>) {
        let mut former = std::mem::take(&mut self.rows);
        let mut at = 0;
        for item in items {
            // The order of a list seldom changes, so an item is found at once unless it is new.
            let found = former[at..].iter().position(|row| Arc::ptr_eq(&row.item, item)).map(|n| at + n);
            let answers = match found {
                Some(found) => {
                    at = found + 1;
                    std::mem::take(&mut former[found].answers)
                }
                None => Vec::new(),
            };
            self.rows.push(Row { item: item.clone(), answers });
        }
    }

    fn evaluate(&mut self) -> Option<bool> {
        let mut names = Names(Vec::new());
        for part in 0..self.plan.parts.len() {
            // A part without a value stays undefined, so the rest fails when it reads the part.
            if let Ok(value) = self.part(part) {
                names.0.push((Plan::name(part), value));
            }
        }
        if self.plan.whole {
            let items: Option<Vec<Box<dyn Val>>> =
                self.rows.iter().map(|row| Some(self.converted(row)?.clone_as_boxed())).collect();
            names.0.push((self.name.to_owned(), Arc::new(CelList::from(items?))));
        }
        let mut context = Context::with_env(self.expression.env.clone());
        context.set_variable_resolver(&names);
        let value = CelValue::resolve_val(&self.plan.rest, &context).ok()?;
        value.downcast_ref::<CelBool>().map(|is| *is.inner())
    }

    fn converted(&self, row: &Row) -> Option<Arc<dyn Val>> {
        row.item.converted(&self.expression.escaped)
    }

    fn part(&mut self, part: usize) -> Result<Arc<dyn Val>, Unclear> {
        let rows = self.selected(part)?;
        let yes = |is: bool| -> Arc<dyn Val> { Arc::new(CelBool::from(is)) };
        Ok(match self.plan.parts[part].how {
            How::All(ask) => yes(!self.decided(&rows, ask, false)?),
            How::Exists(ask) => yes(self.decided(&rows, ask, true)?),
            How::ExistsOne(ask) => {
                let found = rows.into_iter().map(|row| self.is(row, ask).map(usize::from));
                yes(found.sum::<Result<usize, Unclear>>()? == 1)
            }
            How::Map(ask) => {
                let values = rows.into_iter().map(|row| match self.result_of(row, ask) {
                    Answer::Yes => Ok(CelValue::Bool(true)),
                    Answer::No => Ok(CelValue::Bool(false)),
                    Answer::Value(value) => Ok(value.clone()),
                    Answer::Unclear => Err(Unclear),
                });
                let list = CelValue::List(Arc::new(values.collect::<Result<_, _>>()?));
                let list: Box<dyn Val> = list.try_into().map_err(|_| Unclear)?;
                list.into()
            }
            How::Items => {
                let items = rows.into_iter().map(|row| Some(self.converted(&self.rows[row])?.clone_as_boxed()));
                Arc::new(CelList::from(items.collect::<Option<Vec<_>>>().ok_or(Unclear)?))
            }
            How::Size => Arc::new(CelInt::from(i64::try_from(rows.len()).map_err(|_| Unclear)?)),
            How::At(at) => {
                let row = usize::try_from(at).ok().and_then(|at| rows.get(at)).ok_or(Unclear)?;
                self.converted(&self.rows[*row]).ok_or(Unclear)?
            }
        })
    }

    /// Returns the indexes of the items of a part.
    fn selected(&mut self, part: usize) -> Result<Vec<usize>, Unclear> {
        let mut rows: Vec<usize> = (0..self.rows.len()).collect();
        let Part { filters, .. } = &self.plan.parts[part];
        for ask in filters.clone() {
            let mut kept = Vec::with_capacity(rows.len());
            for row in rows {
                if self.is(row, ask)? {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        Ok(rows)
    }

    /// Returns true if the result for one of the items is `answer`. As in CEL, errors of other items do not matter
    /// then.
    fn decided(&mut self, rows: &[usize], ask: usize, answer: bool) -> Result<bool, Unclear> {
        let mut unclear = false;
        for row in rows {
            match self.is(*row, ask) {
                Ok(is) if is == answer => return Ok(true),
                Ok(_) => {}
                Err(Unclear) => unclear = true,
            }
        }
        if unclear { Err(Unclear) } else { Ok(false) }
    }

    fn is(&mut self, row: usize, ask: usize) -> Result<bool, Unclear> {
        match self.result_of(row, ask) {
            Answer::Yes => Ok(true),
            Answer::No => Ok(false),
            Answer::Value(_) | Answer::Unclear => Err(Unclear),
        }
    }

    /// Returns the result for an item; evaluates it only the first time.
    fn result_of(&mut self, row: usize, ask: usize) -> &Answer {
        let known = self.rows[row].answers.get(ask).is_some_and(Option::is_some);
        let fresh = (!known).then(|| {
            self.asked += 1;
            self.ask(&self.rows[row], ask)
        });
        let answers = &mut self.rows[row].answers;
        answers.resize_with(answers.len().max(ask + 1), || None);
        if fresh.is_some() {
            answers[ask] = fresh;
        }
        answers[ask].get_or_insert(Answer::Unclear)
    }

    fn ask(&self, row: &Row, ask: usize) -> Answer {
        let ask = &self.plan.asks[ask];
        let Some(item) = self.converted(row) else { return Answer::Unclear };
        let names = Names(vec![(ask.name.clone(), item)]);
        let mut context = Context::with_env(self.expression.env.clone());
        context.set_variable_resolver(&names);
        let Ok(value) = CelValue::resolve_val(&ask.of, &context) else { return Answer::Unclear };
        match value.downcast_ref::<CelBool>() {
            Some(is) if *is.inner() => Answer::Yes,
            Some(_) => Answer::No,
            None => CelValue::try_from(&*value).map_or(Answer::Unclear, Answer::Value),
        }
    }
}
