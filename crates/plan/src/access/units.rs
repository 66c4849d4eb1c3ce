//! Comparisons of integers and decimals with numbers of other kinds.

use saki_base::DataType;
use saki_catalog::Test;
use saki_exec::predicate::CompareOp;

use super::scalar;

/// `column op number`, in whole units of the column: `k < 7.5` is `k <= 7`, `k = 7.5` never.
pub fn compare_units(op: CompareOp, number: scalar::Exact, column: DataType, scale: u32) -> Option<Test> {
    let never = Test::OneOf { values: Vec::new(), negated: false };
    let (floor, exact) = if number.scale <= scale {
        (number.unscaled.checked_mul(10_i128.checked_pow(scale - number.scale)?)?, true)
    } else {
        let divisor = 10_i128.checked_pow(number.scale - scale)?;
        (number.unscaled.div_euclid(divisor), number.unscaled.rem_euclid(divisor) == 0)
    };
    let (op, units) = match (op, exact) {
        (op, true) => (op, floor),
        (CompareOp::Equal, false) => return Some(never),
        (CompareOp::NotEqual, false) => return Some(Test::IsNotNull),
        (CompareOp::Less | CompareOp::LessOrEqual, false) => (CompareOp::LessOrEqual, floor),
        (CompareOp::Greater | CompareOp::GreaterOrEqual, false) => (CompareOp::Greater, floor),
    };
    if let Some(value) = scalar::integral_value(column, units) {
        return Some(Test::Compare(op, value));
    }
    // Beyond what the column can hold: on which side decides.
    let above = units > 0;
    Some(match op {
        CompareOp::Equal => never,
        CompareOp::NotEqual => Test::IsNotNull,
        CompareOp::Less | CompareOp::LessOrEqual => {
            if above {
                Test::IsNotNull
            } else {
                never
            }
        }
        CompareOp::Greater | CompareOp::GreaterOrEqual => {
            if above {
                never
            } else {
                Test::IsNotNull
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use saki_base::value::Value;

    use super::*;

    fn number(unscaled: i128, scale: u32) -> scalar::Exact {
        scalar::Exact { unscaled, scale }
    }

    #[test]
    fn a_fraction_between_two_integers_rounds_to_the_right_side() {
        let less = compare_units(CompareOp::Less, number(75, 1), DataType::Int4, 0).unwrap();
        assert_eq!(less, Test::Compare(CompareOp::LessOrEqual, Value::Int4(7)));
        let at_least = compare_units(CompareOp::GreaterOrEqual, number(-75, 1), DataType::Int4, 0).unwrap();
        assert_eq!(at_least, Test::Compare(CompareOp::Greater, Value::Int4(-8)));
        let equal = compare_units(CompareOp::Equal, number(70, 1), DataType::Int4, 0).unwrap();
        assert_eq!(equal, Test::Compare(CompareOp::Equal, Value::Int4(7)));
    }

    #[test]
    fn a_number_out_of_the_columns_range_decides_by_its_side() {
        let beyond = number(1 << 40, 0);
        let (all, none) = (Test::IsNotNull, Test::OneOf { values: vec![], negated: false });
        let cases = [
            (CompareOp::Less, &all, &none),
            (CompareOp::LessOrEqual, &all, &none),
            (CompareOp::Greater, &none, &all),
            (CompareOp::GreaterOrEqual, &none, &all),
            (CompareOp::Equal, &none, &none),
            (CompareOp::NotEqual, &all, &all),
        ];
        for (op, above, below) in cases {
            assert_eq!(&compare_units(op, beyond, DataType::Int4, 0).unwrap(), above, "{op:?}");
            let negative = number(-(1 << 40), 0);
            assert_eq!(&compare_units(op, negative, DataType::Int4, 0).unwrap(), below, "{op:?}");
        }
    }

    /// Every fraction against every small integer: the test says what the comparison does.
    #[test]
    fn a_comparison_in_units_means_the_same() {
        let holds = |op: CompareOp, order: std::cmp::Ordering| match op {
            CompareOp::Equal => order.is_eq(),
            CompareOp::NotEqual => order.is_ne(),
            CompareOp::Less => order.is_lt(),
            CompareOp::LessOrEqual => order.is_le(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::GreaterOrEqual => order.is_ge(),
        };
        let ops = [
            CompareOp::Equal,
            CompareOp::NotEqual,
            CompareOp::Less,
            CompareOp::LessOrEqual,
            CompareOp::Greater,
            CompareOp::GreaterOrEqual,
        ];
        for (op, tenths) in ops.into_iter().flat_map(|op| (-35..35_i128).map(move |tenths| (op, tenths))) {
            let test = compare_units(op, number(tenths, 1), DataType::Int2, 0).unwrap();
            for value in -5..5_i16 {
                let passes = match &test {
                    Test::Compare(op, Value::Int2(bound)) => holds(*op, value.cmp(bound)),
                    Test::IsNotNull => true,
                    Test::OneOf { values, negated: false } => values.contains(&Value::Int2(value)),
                    other => panic!("{other:?}"),
                };
                assert_eq!(
                    passes,
                    holds(op, i128::from(value * 10).cmp(&tenths)),
                    "{value} {op:?} {tenths}/10: {test:?}"
                );
            }
        }
    }
}
