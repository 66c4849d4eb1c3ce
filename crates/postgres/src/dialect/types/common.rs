//! The type that expressions of different types have together: PostgreSQL's rules for operators (chapter 10.2) and for
//! UNION, CASE and what is like them (chapter 10.5).

use arrow_schema::DataType as Arrow;
use saki_base::{DataType, Enumeration};

use crate::types::stored_as;
use saki_catalog::{SqlError, enumeration};
use saki_system::type_name;

/// PostgreSQL's categories of types; types of different ones are not brought together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Category {
    Boolean,
    Number,
    Text,
    Moment,
    Time,
    Interval,
    Bytes,
    Uuid,
    Json,
    Jsonb,
    Enumeration(Enumeration),
}

/// What becomes of operands.
#[derive(Clone, PartialEq, Debug)]
pub enum Together {
    /// They have a type that the planner brings them to by itself: this, or one that holds it.
    As(Arrow),
    /// They have this type, and the planner would take another.
    Cast(Arrow),
    /// There is no such type.
    Apart,
    /// Of one of them nothing is known here: the planner decides.
    Unknown,
}

/// The type of storage that a type of Arrow's is, without lengths; `None` for those that tables do not have,
/// and for arrays.
pub fn stored(data_type: &Arrow) -> Option<DataType> {
    if matches!(data_type, Arrow::Null | Arrow::List(_)) { None } else { stored_as(data_type) }
}

fn category(data_type: &Arrow) -> Option<Category> {
    Some(match stored(data_type)? {
        DataType::Bool => Category::Boolean,
        DataType::Int2
        | DataType::Int4
        | DataType::Int8
        | DataType::Float4
        | DataType::Float8
        | DataType::Decimal { .. } => Category::Number,
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => Category::Text,
        DataType::Date | DataType::Timestamp | DataType::Timestamptz => Category::Moment,
        DataType::Bytea => Category::Bytes,
        DataType::Time => Category::Time,
        DataType::Interval => Category::Interval,
        DataType::Uuid => Category::Uuid,
        DataType::Json => Category::Json,
        DataType::Jsonb => Category::Jsonb,
        DataType::Enum(of) => Category::Enumeration(of),
        DataType::Array(_) => return None,
    })
}

/// What a type is before: each is converted implicitly to those after it in its category. Of states of an enumeration
/// the newer one is after.
fn rank(data_type: &Arrow) -> u32 {
    if let Some(of) = enumeration(data_type) {
        return of.number();
    }
    match data_type {
        Arrow::Int16 | Arrow::Date32 => 0,
        Arrow::Int32 | Arrow::Timestamp(_, None) => 1,
        Arrow::Int64 | Arrow::Timestamp(_, Some(_)) => 2,
        Arrow::Decimal128(..) => 3,
        Arrow::Float32 => 4,
        Arrow::Float64 => 5,
        _ => 0,
    }
}

fn has_zone(data_type: &Arrow) -> bool {
    matches!(data_type, Arrow::Timestamp(_, Some(_)))
}

/// Operands of a comparison. A float beside any other number is compared as a double.
pub fn compared(left: &Arrow, right: &Arrow) -> Together {
    let (Some(left_category), Some(right_category)) = (category(left), category(right)) else {
        return Together::Unknown;
    };
    if left_category != right_category {
        return match (left_category, right_category) {
            // There is no operator between them, and a time becomes an interval by itself.
            (Category::Time, Category::Interval) => Together::Cast(right.clone()),
            (Category::Interval, Category::Time) => Together::Cast(left.clone()),
            _ => Together::Apart,
        };
    }
    if left != right && (left.is_floating() || right.is_floating()) {
        return Together::Cast(Arrow::Float64);
    }
    let together = if rank(right) > rank(left) { right.clone() } else { left.clone() };
    // What a moment without a zone is beside one with a zone is for the session to say; and the planner does not bring
    // states of an enumeration together.
    if left != right && has_zone(&together) { Together::Cast(together) } else { Together::As(together) }
}

/// Expressions of which one is chosen, in PostgreSQL's order; at least one.
pub fn chosen<'t>(types: impl IntoIterator<Item = &'t Arrow>) -> Together {
    let types: Vec<&Arrow> = types.into_iter().collect();
    if let [list @ Arrow::List(_), others @ ..] = &types[..]
        && others.iter().all(|other| other == list)
    {
        return Together::As((*list).clone());
    }
    let mut common: Option<&Arrow> = None;
    let mut differ = false;
    for data_type in types {
        let Some(of_type) = category(data_type) else { return Together::Unknown };
        match common {
            None => common = Some(data_type),
            Some(before) if category(before) != Some(of_type) => return Together::Apart,
            Some(before) => {
                differ |= before != data_type;
                if rank(data_type) > rank(before) {
                    common = Some(data_type);
                }
            }
        }
    }
    match common {
        Some(common) if differ && (common.is_floating() || has_zone(common)) => Together::Cast(common.clone()),
        Some(common) => Together::As(common.clone()),
        None => Together::Unknown,
    }
}

/// 42883: there is no such operator.
pub fn no_operator(left: &Arrow, operator: impl std::fmt::Display, right: &Arrow) -> SqlError {
    SqlError::invalid(format!("operator does not exist: {} {operator} {}", type_name(left), type_name(right)))
        .code("42883")
        .hint("cast one of them to the type of the other")
}

/// 42804: types that are not brought together; `place` says where, as `CASE`.
pub fn do_not_match(place: &str, left: &Arrow, right: &Arrow) -> SqlError {
    SqlError::invalid(format!("{place} types {} and {} cannot be matched", type_name(left), type_name(right)))
        .code("42804")
        .hint("cast one of them to the type of the other")
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;
    use saki_base::types::enumeration::Labels;

    use super::*;

    const DECIMAL: Arrow = Arrow::Decimal128(10, 2);
    const MOMENT: Arrow = Arrow::Timestamp(TimeUnit::Microsecond, None);

    #[test]
    fn a_float_beside_another_number_is_compared_as_a_double() {
        for other in [Arrow::Int16, Arrow::Int32, Arrow::Int64, DECIMAL, Arrow::Float64] {
            assert_eq!(compared(&Arrow::Float32, &other), Together::Cast(Arrow::Float64), "{other}");
            assert_eq!(compared(&other, &Arrow::Float32), Together::Cast(Arrow::Float64), "{other}");
        }
        assert_eq!(compared(&Arrow::Float32, &Arrow::Float32), Together::As(Arrow::Float32));
        assert_eq!(compared(&Arrow::Int32, &DECIMAL), Together::As(DECIMAL));
        assert_eq!(compared(&Arrow::Date32, &MOMENT), Together::As(MOMENT));
        assert_eq!(compared(&Arrow::Int32, &Arrow::Utf8), Together::Apart);
        assert_eq!(compared(&Arrow::Int32, &Arrow::Null), Together::Unknown);
    }

    #[test]
    fn what_is_chosen_has_the_type_that_the_others_become() {
        let of = |types: &[Arrow]| chosen(types);
        assert_eq!(of(&[Arrow::Int32, Arrow::Int64]), Together::As(Arrow::Int64));
        assert_eq!(of(&[DECIMAL, Arrow::Int64]), Together::As(DECIMAL));
        assert_eq!(of(&[Arrow::Int64, Arrow::Float32, DECIMAL]), Together::Cast(Arrow::Float32));
        assert_eq!(of(&[Arrow::Float64, Arrow::Float32]), Together::Cast(Arrow::Float64));
        assert_eq!(of(&[Arrow::Float64, Arrow::Float64]), Together::As(Arrow::Float64));
        assert_eq!(of(&[Arrow::Date32, MOMENT]), Together::As(MOMENT));
        assert_eq!(of(&[Arrow::Utf8, Arrow::Int64]), Together::Apart);
        assert_eq!(of(&[]), Together::Unknown);
    }

    #[test]
    fn states_of_an_enumeration_become_the_newer_one() {
        let state = |id, count: i64| {
            let labels = (1..=count).map(|number| (number.to_string(), number)).collect();
            let of = Enumeration::new(Labels { id, name: format!("e{id}"), labels, ..Labels::default() });
            saki_exec::arrow_type(DataType::Enum(of))
        };
        let (before, after, other) = (state(7001, 1), state(7001, 2), state(7002, 1));
        assert_eq!(compared(&before, &before), Together::As(before.clone()));
        assert_eq!(compared(&before, &after), Together::Cast(after.clone()));
        assert_eq!(chosen([&after, &before]), Together::Cast(after.clone()));
        assert_eq!(compared(&after, &other), Together::Apart);
        assert_eq!(no_operator(&after, "=", &other).message, "operator does not exist: e7001 = e7002");
    }

    #[test]
    fn types_are_called_as_postgresql_calls_them() {
        let moment = Arrow::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let names = [Arrow::Int32, DECIMAL, Arrow::Utf8, moment, Arrow::FixedSizeBinary(16)].map(|of| type_name(&of));
        assert_eq!(names, ["integer", "numeric", "text", "timestamp with time zone", "uuid"]);
    }
}
