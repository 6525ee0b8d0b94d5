//! Resource quantities.

use cel::common::types::{CelBool, CelDouble, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{fails, opaque};
use crate::fields::quantity;

/// A quantity, in units of 10⁻⁹.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Quantity(i128);
opaque!(Quantity, "kubernetes.Quantity");

const NANO: i128 = 1_000_000_000;

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn quantity: (CelString) -> Result<Quantity>)?;
    cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    cel::add_member_overload!(env, fn sign: (Quantity) -> CelInt)?;
    cel::add_member_overload!(env, fn is_integer: (Quantity) -> CelBool)?;
    cel::add_member_overload!(env, fn as_integer: (Quantity) -> Result<CelInt>)?;
    cel::add_member_overload!(env, fn as_approximate_float: (Quantity) -> CelDouble)?;
    cel::add_member_overload!(env, fn is_greater_than: (Quantity, Quantity) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (Quantity, Quantity) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Quantity, Quantity) -> CelInt)?;
    cel::add_member_overload!(env, fn add: (Quantity, Quantity) -> Quantity)?;
    cel::add_member_overload!(env, fn add_int: (Quantity, CelInt) -> Quantity, name = "add")?;
    cel::add_member_overload!(env, fn sub: (Quantity, Quantity) -> Quantity)?;
    cel::add_member_overload!(env, fn sub_int: (Quantity, CelInt) -> Quantity, name = "sub")
}

fn quantity(text: &CelString<'_>) -> Result<Quantity, ExecutionError> {
    let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    quantity::nanos(text.inner()).map(Quantity).ok_or_else(|| fails("quantity", why))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    quantity::nanos(text.inner()).is_some().into()
}

fn sign(of: &Quantity) -> CelInt {
    i64::try_from(of.0.signum()).unwrap_or_default().into()
}

fn integer(of: &Quantity) -> Option<i64> {
    (of.0 % NANO == 0).then(|| i64::try_from(of.0 / NANO).ok())?
}

fn is_integer(of: &Quantity) -> CelBool {
    integer(of).is_some().into()
}

fn as_integer(of: &Quantity) -> Result<CelInt, ExecutionError> {
    integer(of).map(CelInt::from).ok_or_else(|| fails("asInteger", "cannot convert value to integer"))
}

fn as_approximate_float(of: &Quantity) -> CelDouble {
    (of.0 as f64 / NANO as f64).into()
}

fn is_greater_than(a: &Quantity, b: &Quantity) -> CelBool {
    (a.0 > b.0).into()
}

fn is_less_than(a: &Quantity, b: &Quantity) -> CelBool {
    (a.0 < b.0).into()
}

fn compare_to(a: &Quantity, b: &Quantity) -> CelInt {
    (a.0.cmp(&b.0) as i64).into()
}

fn add(a: &Quantity, b: &Quantity) -> Quantity {
    Quantity(a.0.saturating_add(b.0))
}

fn add_int(a: &Quantity, b: &CelInt) -> Quantity {
    Quantity(a.0.saturating_add(i128::from(*b.inner()) * NANO))
}

fn sub(a: &Quantity, b: &Quantity) -> Quantity {
    Quantity(a.0.saturating_sub(b.0))
}

fn sub_int(a: &Quantity, b: &CelInt) -> Quantity {
    Quantity(a.0.saturating_sub(i128::from(*b.inner()) * NANO))
}
