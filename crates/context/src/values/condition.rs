//! Conditions of fast statements: alternatives, of which each is conditions on single columns.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::Array;
use datafusion::common::ScalarValue;
use saki_base::{CompareOp, DataType, Pattern, Value, ValueRef, compare};

use super::expr::{Expr, Inputs, Misfit, Scaled, scalar};

/// What a column is compared with.
#[derive(Clone, Debug)]
pub enum Test {
    /// It equals one of these.
    OneOf(Values),
    Compare(CompareOp, Expr),
    /// Its text, not of type char(n), is like a pattern that says how it begins, or what it is.
    Like(Expr),
    /// It is NULL.
    IsNull,
    IsNotNull,
}

/// Several values.
#[derive(Clone, Debug)]
pub enum Values {
    List(Arc<[Expr]>),
    /// The elements of a parameter.
    Elements(usize),
}

/// A condition on a column.
#[derive(Clone, Debug)]
pub struct Condition {
    pub column: usize,
    pub data_type: DataType,
    pub test: Test,
}

/// Holds where all conditions of one alternative do.
pub type Alternatives = Vec<Vec<Condition>>;

/// Values from which on a list is put in order before rows are looked for in it.
const LONG_LIST: usize = 8;

/// Alternatives, made ready for many rows: what a row costs does not grow with the lists.
pub struct Filter<'c> {
    alternatives: Vec<Vec<Ready<'c>>>,
    /// A column that each of many alternatives compares with a value of its own.
    by: Option<(usize, Vec<Entry>)>,
}

/// What a column is compared with, of its type, and the alternative that does; in order.
type Entry = (Value, usize);

enum Ready<'c> {
    Each(&'c Condition),
    /// The column has one of these values, of its type and in order.
    Among(&'c Condition, Vec<Value>),
}

impl Values {
    /// Visits the columns that they are made of.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        if let Self::List(list) = self {
            list.iter().for_each(|expr| expr.columns(visit));
        }
    }

    /// Whether there is exactly one.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::List(list) if list.len() == 1)
    }

    /// How many there are, of parameters with these values.
    pub fn count(&self, parameters: &[ScalarValue]) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Elements(parameter) => match parameters.get(*parameter) {
                Some(ScalarValue::List(list)) if !list.is_empty() => list.value_length(0).unsigned_abs() as usize,
                _ => 0,
            },
        }
    }

    /// Visits the values.
    pub fn visit(
        &self,
        inputs: &Inputs<'_>,
        mut visit: impl FnMut(Scaled<'_>) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        match self {
            Self::List(list) => list.iter().try_for_each(|expr| visit(expr.value(inputs)?)),
            Self::Elements(parameter) => {
                let ScalarValue::List(list) = &inputs.parameters[*parameter] else { return Err(Misfit::Ordinary) };
                if list.is_empty() || list.is_null(0) {
                    return Ok(());
                }
                let elements = list.value(0);
                for place in 0..elements.len() {
                    let element = ScalarValue::try_from_array(&elements, place).map_err(|_| Misfit::Ordinary)?;
                    visit(scalar(&element)?)?;
                }
                Ok(())
            }
        }
    }

    /// Visits those that a column of a type can have: NULL equals nothing, and nothing what is beyond the type.
    fn visit_of(
        &self,
        data_type: DataType,
        inputs: &Inputs<'_>,
        mut visit: impl FnMut(ValueRef<'_>) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        self.visit(inputs, |value| match value.trimmed(data_type).exactly(data_type) {
            None | Some(ValueRef::Null) => Ok(()),
            Some(value) => visit(value),
        })
    }
}

/// Values that are put in order are of one kind.
fn expect_kind(first: Option<&Value>, value: ValueRef<'_>) -> Result<(), Misfit> {
    match first {
        Some(first) if first.as_ref().kind() != value.kind() => Err(Misfit::Ordinary),
        _ => Ok(()),
    }
}

impl<'c> Filter<'c> {
    /// `inputs` are those of the statement; nothing of a row is asked for.
    pub fn new(alternatives: &'c Alternatives, inputs: &Inputs<'_>) -> Result<Self, Misfit> {
        let of_one = |conditions: &'c Vec<Condition>| {
            conditions.iter().map(|condition| Ready::new(condition, inputs)).collect::<Result<_, _>>()
        };
        let by = if alternatives.len() < LONG_LIST { None } else { most_different(alternatives, inputs)? };
        Ok(Self { alternatives: alternatives.iter().map(of_one).collect::<Result<_, _>>()?, by })
    }

    /// Whether a row, as `inputs` has it, meets one of the alternatives.
    pub fn holds(&self, inputs: &Inputs<'_>) -> Result<bool, Misfit> {
        let Some((column, entries)) = &self.by else { return any_holds(&self.alternatives, inputs) };
        let value = inputs.row[*column];
        if value == ValueRef::Null {
            return Ok(false);
        }
        let start = entries.partition_point(|(other, _)| compare(other.as_ref(), value).is_lt());
        let same = entries[start..].iter().take_while(|(other, _)| compare(other.as_ref(), value).is_eq());
        any_holds(same.map(|(_, alternative)| &self.alternatives[*alternative]), inputs)
    }
}

fn any_holds<'r, 'c: 'r>(
    alternatives: impl IntoIterator<Item = &'r Vec<Ready<'c>>>,
    inputs: &Inputs<'_>,
) -> Result<bool, Misfit> {
    for conditions in alternatives {
        let mut all = true;
        for condition in conditions {
            if !condition.holds(inputs)? {
                all = false;
                break;
            }
        }
        if all {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The column that alternatives compare with the most different values, of those that each compares with one.
fn most_different(alternatives: &Alternatives, inputs: &Inputs<'_>) -> Result<Option<(usize, Vec<Entry>)>, Misfit> {
    let mut best: Option<(usize, usize, Vec<Entry>)> = None;
    for column in alternatives[0].iter().map(|condition| condition.column) {
        let Some(entries) = entries(alternatives, column, inputs)? else { continue };
        let different = 1 + entries.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        if best.as_ref().is_none_or(|(most, ..)| different > *most) {
            best = Some((different, column, entries));
        }
    }
    Ok(best.map(|(_, column, entries)| (column, entries)))
}

/// The value that each alternative compares a column with, in order; `None` if one of them compares it with none, or
/// with several.
fn entries(alternatives: &Alternatives, column: usize, inputs: &Inputs<'_>) -> Result<Option<Vec<Entry>>, Misfit> {
    let mut entries: Vec<Entry> = Vec::with_capacity(alternatives.len());
    for (number, conditions) in alternatives.iter().enumerate() {
        let single = |condition: &&Condition| {
            condition.column == column
                && !condition.has_columns()
                && matches!(&condition.test, Test::OneOf(values) if values.is_single())
        };
        let Some(Condition { test: Test::OneOf(values), data_type, .. }) = conditions.iter().find(single) else {
            return Ok(None);
        };
        values.visit_of(*data_type, inputs, |value| {
            expect_kind(entries.first().map(|(first, _)| first), value)?;
            entries.push((Value::from(value), number));
            Ok(())
        })?;
    }
    entries.sort_unstable_by(|one, other| compare(one.0.as_ref(), other.0.as_ref()));
    Ok(Some(entries))
}

impl<'c> Ready<'c> {
    fn new(condition: &'c Condition, inputs: &Inputs<'_>) -> Result<Self, Misfit> {
        let Test::OneOf(values) = &condition.test else { return Ok(Self::Each(condition)) };
        if condition.has_columns() || values.count(inputs.parameters) < LONG_LIST {
            return Ok(Self::Each(condition));
        }
        let data_type = condition.data_type;
        let mut among: Vec<Value> = Vec::with_capacity(values.count(inputs.parameters));
        values.visit_of(data_type, inputs, |value| {
            expect_kind(among.first(), value)?;
            among.push(Value::from(value));
            Ok(())
        })?;
        among.sort_unstable_by(|one, other| compare(one.as_ref(), other.as_ref()));
        Ok(Self::Among(condition, among))
    }

    fn holds(&self, inputs: &Inputs<'_>) -> Result<bool, Misfit> {
        match self {
            Self::Each(condition) => condition.holds(inputs),
            Self::Among(condition, among) => match (inputs.row[condition.column], among.first()) {
                (ValueRef::Null, _) | (_, None) => Ok(false),
                (value, first) => {
                    expect_kind(first, value)?;
                    Ok(among.binary_search_by(|one| compare(one.as_ref(), value)).is_ok())
                }
            },
        }
    }
}

impl Condition {
    /// Visits the columns that it compares with its own.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        match &self.test {
            Test::OneOf(values) => values.columns(visit),
            Test::Compare(_, expr) | Test::Like(expr) => expr.columns(visit),
            Test::IsNull | Test::IsNotNull => {}
        }
    }

    /// Whether it compares its column with others.
    pub fn has_columns(&self) -> bool {
        let mut has_any = false;
        self.columns(&mut |_| has_any = true);
        has_any
    }

    fn holds(&self, inputs: &Inputs<'_>) -> Result<bool, Misfit> {
        let value = Scaled::of(inputs.row[self.column], self.data_type);
        match &self.test {
            Test::Compare(operator, expr) => {
                let ordering = value.compared(expr.value(inputs)?.trimmed(self.data_type))?;
                Ok(ordering.is_some_and(|ordering| operator.holds(ordering)))
            }
            Test::Like(pattern) => match (value.value, pattern.value(inputs)?.value) {
                (ValueRef::Text(text), ValueRef::Text(pattern)) => {
                    Ok(Pattern::read(pattern).ok_or(Misfit::Ordinary)?.is_met(text))
                }
                _ => Ok(false),
            },
            Test::IsNull => Ok(value.value == ValueRef::Null),
            Test::IsNotNull => Ok(value.value != ValueRef::Null),
            Test::OneOf(values) => {
                let mut found = false;
                values.visit(inputs, |other| {
                    found |= value.compared(other.trimmed(self.data_type))? == Some(Ordering::Equal);
                    Ok(())
                })?;
                Ok(found)
            }
        }
    }
}
