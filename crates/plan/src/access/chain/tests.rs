//! Chains in symbols, and what they are lowered to.

use arrow_array::Int64Array;
use arrow_schema::{DataType as Arrow, Field, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, lit};
use saki_base::DataType;
use saki_base::value::Value;
use saki_catalog::Test;
use saki_exec::predicate::CompareOp;

use super::*;
use crate::fixture::{Fixture, TableBuilder};

fn table(name: &str) -> Arc<Table> {
    TableBuilder::new(name)
        .column("id", DataType::Int8)
        .column("other", DataType::Int8)
        .column("more", DataType::Int8)
        .key(&["id"])
        .build()
}

fn at(step: usize, column: usize) -> ColumnRef {
    ColumnRef { step, column }
}

/// `a.other` looked up as `b.id`.
fn chain() -> Chain {
    let (a, b) = (table("a"), table("b"));
    let origin = Origin::Ranges {
        access: TableAccess::primary(&a),
        ranges: vec![KeyRange::default()],
        predicates: Vec::new(),
        tests: Arc::default(),
    };
    let link = Link {
        access: TableAccess::primary(&b),
        kind: JoinKind::Inner,
        key: vec![LinkKey::Column(at(0, 1))],
        unique: true,
        predicates: Vec::new(),
        completes_previous: false,
    };
    Chain { origin, links: vec![link], filters: Vec::new(), limit: None, snapshot: Arc::new(()) }
}

/// `left < right` over columns 0 and 1 of an expression's own schema.
fn less() -> Arc<dyn PhysicalExpr> {
    let fields = ["x", "y"].map(|name| Field::new(name, Arrow::Int64, false));
    let (x, y) = (Arc::new(Column::new("x", 0)), Arc::new(Column::new("y", 1)));
    binary(x, Operator::Lt, y, &Schema::new(fields.to_vec())).unwrap()
}

fn lowered(chain: &Chain, output: &[ColumnRef]) -> Lowered {
    let fixture = Fixture::new();
    chain.lower(output, &fixture.default_env().snapshot)
}

#[test]
fn a_column_is_fetched_where_it_is_first_and_kept_while_it_is_needed() {
    let lowered = lowered(&chain(), &[at(1, 2), at(0, 0)]);
    let Source::Ranges { fetch, .. } = &lowered.pipeline.source else { panic!("a tree") };
    assert_eq!(*fetch, [0, 1], "what is asked for, and the key of the lookup");
    let [stage] = &lowered.pipeline.stages[..] else { panic!("one lookup") };
    assert_eq!(stage.keep, [0], "the key is not needed any more");
    assert_eq!(stage.fetch, [2]);
    assert!(matches!(stage.key[..], [KeySource::Register(1)]));
    assert_eq!(lowered.output, [OutputColumn::Register(1), OutputColumn::Register(0)]);
}

#[test]
fn a_filter_is_applied_where_all_its_columns_are_there() {
    let mut both = chain();
    assert!(both.add_filter(ChainFilter { condition: less(), columns: vec![at(0, 2), at(1, 1)] }));
    let lowered_both = lowered(&both, &[at(0, 0)]);
    let Source::Ranges { filter, fetch, .. } = &lowered_both.pipeline.source else { panic!("a tree") };
    assert!(filter.is_none() && fetch.contains(&2));
    assert_eq!(lowered_both.pipeline.stages[0].filter.as_ref().unwrap().describe(), "x@1 < y@2");
    let mut first = chain();
    assert!(first.add_filter(ChainFilter { condition: less(), columns: vec![at(0, 2), at(0, 0)] }));
    let lowered_first = lowered(&first, &[at(1, 0)]);
    let Source::Ranges { filter, .. } = &lowered_first.pipeline.source else { panic!("a tree") };
    assert_eq!(filter.as_ref().unwrap().describe(), "x@2 < y@0");
    assert!(lowered_first.pipeline.stages[0].filter.is_none());
}

#[test]
fn filters_of_outer_batches_after_a_limit_or_without_columns_are_refused() {
    let filter = |columns| ChainFilter { condition: less(), columns };
    let mut limited = Chain { limit: Some(3), ..chain() };
    assert!(!limited.add_filter(filter(vec![at(0, 0), at(1, 0)])));
    let schema = Arc::new(Schema::new(vec![Field::new("x", Arrow::Int64, false)]));
    let mut fed = Chain { origin: Origin::Rows { schema }, ..chain() };
    assert!(fed.is_outer(at(0, 0)) && !fed.is_outer(at(1, 0)));
    assert!(!fed.add_filter(filter(vec![at(0, 0), at(1, 0)])));
    assert!(fed.add_filter(filter(vec![at(1, 1), at(1, 0)])));
    assert!(!fed.add_filter(filter(Vec::new())));
}

#[test]
fn outer_columns_need_no_register() {
    let schema = Arc::new(Schema::new(vec![Field::new("x", Arrow::Int64, false)]));
    let mut fed = Chain { origin: Origin::Rows { schema }, ..chain() };
    fed.links[0].key = vec![LinkKey::Column(at(0, 0))];
    let lowered = lowered(&fed, &[at(0, 0), at(1, 1)]);
    assert!(matches!(lowered.pipeline.stages[0].key[..], [KeySource::Outer(0)]));
    assert_eq!(lowered.output, [OutputColumn::Outer(0), OutputColumn::Register(0)]);
}

#[test]
fn a_filter_is_reduced_to_the_columns_that_it_names() {
    let columns = vec![ColumnRef::NOWHERE, at(1, 2), ColumnRef::NOWHERE, at(0, 1)];
    let condition = renumber(&less(), &|index| [3, 1][index]);
    let filter = only_used(ChainFilter { condition, columns }).unwrap();
    assert_eq!((filter.condition.to_string(), filter.columns), ("x@0 < y@1".to_owned(), vec![at(0, 1), at(1, 2)]));
    let beyond = ChainFilter { condition: less(), columns: vec![at(0, 0)] };
    assert!(only_used(beyond).is_none(), "there is no second column");
}

#[test]
fn a_constant_in_a_key_is_one_value() {
    let key = TableAccess::primary(&table("a")).tree.key.columns()[0];
    let equal = |value| ColumnTest::new(0, Test::Compare(CompareOp::Equal, Value::Int8(value)));
    let constant = ConstantKey::new(equal(7), key).unwrap();
    assert_eq!(constant.text(), "7");
    assert_ne!(constant.bytes, ConstantKey::new(equal(8), key).unwrap().bytes);
    let two = Test::OneOf { values: vec![Value::Int8(1), Value::Int8(2)], negated: false };
    assert!(ConstantKey::new(ColumnTest::new(0, two), key).is_none());
    assert!(ConstantKey::new(ColumnTest::new(0, Test::IsNull), key).is_none());
}

#[test]
fn other_values_of_parameters_change_ranges_predicates_and_keys() {
    let test = |column, value| {
        conditions::of_parameter(column, DataType::Int8, 1, &[ScalarValue::Int64(Some(value))]).unwrap()
    };
    let mut chain = chain();
    let access = TableAccess::primary(&table("a"));
    let ranges = key_range::bounds(&access, &[test(0, 7)]).unwrap().ranges;
    let before = ranges.clone();
    chain.origin =
        Origin::Ranges { access, ranges, predicates: vec![test(1, 7).placed(1)], tests: [test(0, 7)].into() };
    let key = chain.links[0].access.tree.key.columns()[0];
    chain.links[0].key = vec![LinkKey::Constant(ConstantKey::new(test(0, 7), key).unwrap())];
    chain.links[0].predicates = vec![test(2, 7).placed(2)];
    assert_eq!(chain.open_tests().count(), 4);
    chain.rebind(&[ScalarValue::Int64(Some(8))]).unwrap();
    assert!(chain.open_tests().all(|(_, test)| test.points() == Some(&[Value::Int8(8)])));
    let Origin::Ranges { ranges, .. } = &chain.origin else { panic!("a tree") };
    assert_ne!(format!("{ranges:?}"), format!("{before:?}"));
    let LinkKey::Constant(constant) = &chain.links[0].key[0] else { panic!("a constant") };
    assert_eq!(constant.text(), "8");
    assert!(chain.rebind(&[ScalarValue::Int64(None)]).is_none());
}

#[test]
fn a_register_filter_keeps_rows_for_which_all_conditions_are_true() {
    let column = |name: &str, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
    let fields = ["x", "y"].map(|name| Field::new(name, Arrow::Int64, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let columns: [Vec<Option<i64>>; 2] = [vec![Some(1), Some(5), None, Some(2)], vec![Some(2), Some(3), Some(4), None]];
    let arrays = columns.map(|values| Arc::new(Int64Array::from(values)) as _);
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.to_vec()).unwrap();
    let small = binary(column("x", 0), Operator::Lt, lit(3_i64), &schema).unwrap();
    let kept = |conditions| {
        let found = RegisterFilter { conditions }.select(&batch).unwrap();
        found.iter().map(|row| row == Some(true)).collect::<Vec<_>>()
    };
    assert_eq!(kept(vec![less()]), [true, false, false, false]);
    assert_eq!(kept(vec![Arc::clone(&small)]), [true, false, false, true]);
    assert_eq!(kept(vec![small, less()]), [true, false, false, false]);
    assert_eq!(kept(vec![]), [true; 4]);
    let number = RegisterFilter { conditions: vec![column("x", 0)] };
    assert!(number.select(&batch).is_err(), "a number is no truth");
}
