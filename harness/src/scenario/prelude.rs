//! Names that most modules of steps and expectations use.

pub(super) use std::fmt;
pub(super) use std::time::Duration;

pub(super) use substrate::fault::Span;

pub(super) use super::diagnostic::Mistake;
pub(super) use super::expects::{Expect, Expectation};
pub(super) use super::lower::{Checked, Steps};
pub(super) use super::predicate::Within;
pub(super) use super::shape::{Key, Map, Of, Word, may, must, names, one};
pub(super) use super::source_span::Spanned;
pub(super) use super::steps::{Action, Summary};
pub(super) use crate::spec::object::{Kind, ObjectRef};
pub(super) use crate::suggestions::suggest;
