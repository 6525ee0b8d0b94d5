//! Tables: rows in the order of their ids, with an index of the most frequent filters. A lookup by tag in a hundred
//! thousand volumes costs the same as in ten.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Bound, Deref};
use std::str::FromStr;
use std::sync::Arc;

use super::changed::Changed;
use super::error::Missing;
use super::filter::{Filter, literal};

/// Row of a table.
pub trait Row: Clone + fmt::Debug + PartialEq {
    /// Type of the key.
    type Id: Borrow<str> + Clone + fmt::Debug + fmt::Display + FromStr + Ord;

    /// Name of the filter on the id.
    const ID_FILTER: &'static str;
    /// Further indexed filters; their values never change.
    const FIXED: &'static [&'static str];

    /// Returns the id.
    fn id(&self) -> &Self::Id;

    /// Returns the tags.
    fn tags(&self) -> &BTreeMap<String, String>;

    /// Returns the tags for a change; only [`Table::retag`] may call it.
    fn tags_mut(&mut self) -> &mut BTreeMap<String, String>;

    /// Returns the value of the filter `name` of [`Row::FIXED`].
    fn fixed(&self, name: &str) -> &str;
}

/// Rows by id. Reads go to the map; changes of tags or of the set of rows go through the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<R: Row> {
    rows: BTreeMap<R::Id, Arc<R>>,
    /// Shared with snapshots of the state until one of the two changes.
    index: Arc<Index<R::Id>>,
    changed: Changed<R::Id>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), index: Arc::new(Index(BTreeMap::new())), changed: Changed::default() }
    }
}

impl<R: Row> Deref for Table<R> {
    type Target = BTreeMap<R::Id, Arc<R>>;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

impl<R: Row> FromIterator<Arc<R>> for Table<R> {
    fn from_iter<I: IntoIterator<Item = Arc<R>>>(rows: I) -> Self {
        let mut table = Self::default();
        rows.into_iter().for_each(|row| table.insert(row));
        table
    }
}

impl<R: Row> Table<R> {
    /// Inserts a row; replaces one with the same id.
    pub fn insert(&mut self, row: Arc<R>) {
        let id = row.id().clone();
        self.remove(&id);
        self.changed.note(&id);
        Arc::make_mut(&mut self.index).note(&*row, true);
        self.rows.insert(id, row);
    }

    /// Removes a row.
    pub fn remove(&mut self, id: &R::Id) -> Option<Arc<R>> {
        let gone = self.rows.remove::<R::Id>(id)?;
        self.changed.note(id);
        Arc::make_mut(&mut self.index).note(&*gone, false);
        Some(gone)
    }

    /// Returns a row for a change of anything but its tags and [`Row::FIXED`].
    pub fn get_mut(&mut self, id: &R::Id) -> Option<&mut Arc<R>> {
        let row = self.rows.get_mut::<R::Id>(id)?;
        self.changed.note(id);
        Some(row)
    }

    /// Returns the rows that satisfy `meant`, like [`Table::get_mut`].
    pub fn select_mut(&mut self, meant: impl Fn(&R) -> bool) -> impl Iterator<Item = &mut Arc<R>> {
        let Self { rows, changed, .. } = self;
        rows.values_mut().filter(move |row| meant(row)).inspect(|row| changed.note(row.id()))
    }

    /// Starts recording changed rows.
    pub fn track(&mut self) {
        self.changed.track();
    }

    /// Takes the ids of the rows that may have changed, appeared or gone since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<R::Id> {
        self.changed.take()
    }

    /// Changes the tags of a row.
    pub fn retag(&mut self, id: &R::Id, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let Some(row) = self.rows.get_mut::<R::Id>(id) else { return };
        self.changed.note(id);
        let index = Arc::make_mut(&mut self.index);
        index.note(&**row, false);
        let row = Arc::make_mut(row);
        change(row.tags_mut());
        index.note(row, true);
    }

    /// Changes the tags of a row and leaves the index as it is: a seeded bug.
    pub fn retag_unindexed(&mut self, id: &R::Id, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let Some(row) = self.rows.get_mut::<R::Id>(id) else { return };
        self.changed.note(id);
        change(Arc::make_mut(row).tags_mut());
    }

    /// Returns candidate rows in the order of ids: those of `ids`. Without ids, all after the id `after`, except rows
    /// that the index excludes by one of `filters`.
    ///
    /// # Errors
    /// The unknown ids.
    pub fn select<'a>(
        &'a self,
        ids: &[R::Id],
        filters: &[Filter],
        after: Option<&str>,
    ) -> Result<Box<dyn Iterator<Item = &'a Arc<R>> + 'a>, Missing> {
        if !ids.is_empty() {
            let asked: BTreeSet<&R::Id> = ids.iter().collect();
            let missing: Vec<String> =
                asked.iter().filter(|id| !self.rows.contains_key::<R::Id>(id)).map(ToString::to_string).collect();
            if !missing.is_empty() {
                return Err(Missing(missing));
            }
            return Ok(Box::new(self.named(asked).into_iter()));
        }
        Ok(match self.candidates(filters) {
            Some(rows) => Box::new(rows.into_iter()),
            None => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                Box::new(self.rows.range::<str, _>((from, Bound::Unbounded)).map(|(_, row)| row))
            }
        })
    }

    /// Returns the existing rows among `ids`.
    pub fn named<'i>(&self, ids: impl IntoIterator<Item = &'i R::Id>) -> Vec<&Arc<R>>
    where
        R::Id: 'i,
    {
        ids.into_iter().filter_map(|id| self.rows.get::<R::Id>(id)).collect()
    }

    /// Returns the rows that pass the most selective of `filters`, in the order of ids. None if the index covers no
    /// filter.
    pub fn candidates(&self, filters: &[Filter]) -> Option<Vec<&Arc<R>>> {
        let known = filters.iter().filter_map(|filter| Some((self.count(filter)?, filter)));
        let (_, filter) = known.min_by_key(|(count, _)| *count)?;
        let ids: BTreeSet<R::Id> = match filter.name == R::ID_FILTER {
            true => filter.values.iter().filter_map(|id| id.parse().ok()).collect(),
            false => {
                let lists = filter.values.iter().filter_map(|value| self.index.of(&filter.name, value));
                let mut lists: Vec<&Ids<R::Id>> = lists.collect();
                if let [only] = lists.as_slice() {
                    return Some(self.named(only.iter()));
                }
                lists.drain(..).flat_map(Ids::iter).cloned().collect()
            }
        };
        Some(self.named(&ids))
    }

    /// Returns an upper bound of the rows that pass `filter`. None if the index does not cover it.
    fn count(&self, filter: &Filter) -> Option<usize> {
        let name = filter.name.as_str();
        let known = name == "tag-key" || name.starts_with("tag:") || name == R::ID_FILTER || R::FIXED.contains(&name);
        if !known || !filter.values.iter().all(|value| literal(value)) {
            return None;
        }
        if name == R::ID_FILTER {
            return Some(filter.values.len());
        }
        Some(filter.values.iter().filter_map(|value| self.index.of(name, value)).map(Ids::len).sum())
    }
}

/// Ids by filter and filter value.
#[derive(Clone, Debug, PartialEq)]
struct Index<I>(BTreeMap<String, BTreeMap<String, Ids<I>>>);

impl<I: Clone + Ord> Index<I> {
    fn of(&self, name: &str, value: &str) -> Option<&Ids<I>> {
        self.0.get(name)?.get(value)
    }

    /// Adds `row` if it is `there`, or removes it.
    fn note<R: Row<Id = I>>(&mut self, row: &R, there: bool) {
        for (key, value) in row.tags() {
            self.enter(&format!("tag:{key}"), value, row.id(), there);
            self.enter("tag-key", key, row.id(), there);
        }
        for name in R::FIXED {
            self.enter(name, row.fixed(name), row.id(), there);
        }
    }

    fn enter(&mut self, name: &str, value: &str, id: &I, there: bool) {
        if there {
            // Looked up first: most names and many values are known already.
            if !self.0.contains_key(name) {
                self.0.insert(name.to_owned(), BTreeMap::new());
            }
            let Some(values) = self.0.get_mut(name) else { return };
            match values.get_mut(value) {
                Some(ids) => ids.insert(id),
                None => {
                    values.insert(value.to_owned(), Ids::One(id.clone()));
                }
            }
            return;
        }
        let Some(values) = self.0.get_mut(name) else { return };
        if values.get_mut(value).is_some_and(|ids| ids.remove(id)) {
            values.remove(value);
        }
        if values.is_empty() {
            self.0.remove(name);
        }
    }
}

/// Set of ids. Most values, such as names, have one.
#[derive(Clone, Debug, PartialEq)]
enum Ids<I> {
    One(I),
    Many(BTreeSet<I>),
}

impl<I: Clone + Ord> Ids<I> {
    fn insert(&mut self, id: &I) {
        match self {
            Self::One(only) if only == id => {}
            Self::One(only) => *self = Self::Many(BTreeSet::from([only.clone(), id.clone()])),
            Self::Many(ids) => {
                ids.insert(id.clone());
            }
        }
    }

    /// Removes an id. Returns true if it was the last.
    fn remove(&mut self, id: &I) -> bool {
        match self {
            Self::One(only) => only == id,
            Self::Many(ids) => {
                ids.remove(id);
                if let (Some(only), 1) = (ids.first(), ids.len()) {
                    *self = Self::One(only.clone());
                }
                false
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(ids) => ids.len(),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &I> + '_> {
        match self {
            Self::One(only) => Box::new(std::iter::once(only)),
            Self::Many(ids) => Box::new(ids.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ids::VolumeId;
    use crate::state::volume::Volume;

    fn volume(n: u32, tags: &[(&str, &str)]) -> Arc<Volume> {
        let mut volume = Volume::blank(format!("vol-{n:017x}").parse().unwrap());
        volume.tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Arc::new(volume)
    }

    fn filter(name: &str, values: &[&str]) -> Filter {
        Filter { name: name.to_owned(), values: values.iter().map(|v| (*v).to_owned()).collect() }
    }

    fn numbers(rows: Option<Vec<&Arc<Volume>>>) -> Option<Vec<u32>> {
        let number = |v: &&Arc<Volume>| u32::from_str_radix(&v.id.as_str()[4..], 16).unwrap();
        rows.map(|rows| rows.iter().map(number).collect())
    }

    #[test]
    fn the_index_follows_tags_and_rows() {
        let mut table: Table<Volume> = (0..4).map(|n| volume(n, &[("k", if n < 3 { "a" } else { "b" })])).collect();
        let of = |table: &Table<Volume>, filters: &[Filter]| numbers(table.candidates(filters));
        assert_eq!(of(&table, &[filter("tag:k", &["a"])]), Some(vec![0, 1, 2]));
        assert_eq!(of(&table, &[filter("tag:k", &["b", "a"])]), Some(vec![0, 1, 2, 3]));
        assert_eq!(of(&table, &[filter("tag-key", &["k"]), filter("tag:k", &["b"])]), Some(vec![3]));
        assert_eq!(of(&table, &[filter("tag:other", &["a"])]), Some(vec![]));
        assert_eq!(of(&table, &[filter("tag:k", &["a*"])]), None, "wildcards are looked for row by row");
        assert_eq!(of(&table, &[filter("status", &["available"])]), None);
        let id: VolumeId = "vol-00000000000000002".parse().unwrap();
        assert_eq!(of(&table, &[filter("volume-id", &[id.as_str(), "vol-1", "vol-0aaaaaaaaaaaaaaaa"])]), Some(vec![2]));
        table.retag(&id, |tags| {
            tags.insert("k".to_owned(), "b".to_owned());
        });
        assert_eq!(of(&table, &[filter("tag:k", &["b"])]), Some(vec![2, 3]));
        assert_eq!(of(&table, &[filter("tag:k", &["a"])]), Some(vec![0, 1]));
        (0..4).for_each(|n| {
            table.remove(volume(n, &[]).id()).unwrap();
        });
        assert_eq!(table, Table::default(), "nothing stays of rows that are gone");
    }

    #[test]
    fn rows_are_selected_by_id_or_from_a_place() {
        let table: Table<Volume> = (0..4).map(|n| volume(n, &[])).collect();
        let id = |n: u32| volume(n, &[]).id.clone();
        let select = |ids: &[VolumeId], after: Option<VolumeId>| {
            table
                .select(ids, &[], after.as_ref().map(VolumeId::as_str))
                .map(|rows| numbers(Some(rows.collect())).unwrap_or_default())
        };
        assert_eq!(select(&[id(2), id(1), id(2)], None), Ok(vec![1, 2]));
        assert_eq!(select(&[], Some(id(1))), Ok(vec![2, 3]));
        assert_eq!(select(&[id(1), id(9)], None), Err(Missing(vec![id(9).to_string()])));
    }
}
