//! Types of the parts of an expression, from its leaves up: whatever stands together gets one type here, or is refused,
//! before the planner would bring it together by rules of its own.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::tree_node::{Transformed, TreeNodeRewriter};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::functions::core::nullif;
use datafusion::logical_expr::expr::{AggregateFunction, InList, InSubquery, Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    AggregateUDF, Between, BinaryExpr, Case, Expr, Operator, ScalarUDF, TypeSignature, WindowFunctionDefinition, and,
    binary_expr, cast, lit, or, when,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use super::blanks::{CharColumn, blanks_of, trim};
use super::{intervals, labels, sets};
use crate::dialect::operators::{Planned, field, operator};
use crate::dialect::types::{
    ANY_ARRAY, ANY_ELEMENT, ANY_ENUM, Together, called, chosen, compared, compares, comparison, converted,
    do_not_match, is_interval, is_special, known_type, no_operator, truth, typed,
};
use saki_catalog::{SqlError, enumeration};
use saki_exec::lists;
use saki_functions::arrays;
use saki_functions::arrays::extremes::of_arrays;
use saki_functions::order::sorted_floats;
use saki_functions::sets::intervals::of_intervals;
use saki_functions::sets::series::{SERIES, argument_types};
use saki_functions::{json, numeric, to_char};
use saki_system::type_name;
use saki_system::types::{UNKNOWN, oid_of_value, value_type};

/// Functions that give back one of their arguments.
const CHOOSING: [(&str, &str); 4] =
    [("coalesce", "COALESCE"), ("greatest", "GREATEST"), ("least", "LEAST"), ("make_array", "ARRAY")];

/// Aggregates that are given their arguments in two lists.
const ORDERED: [&str; 3] = ["mode", "percentile_cont", "percentile_disc"];
/// Functions that give integers, where the planner's numbers have no sign.
const COUNTING: [&str; 3] = ["array_length", "array_position", "cardinality"];

/// The oid of `text[]`.
const TEXTS: i64 = 1009;

/// Gives the parts of one expression their types.
pub struct Types<'s> {
    /// The columns that the expression sees.
    pub schema: &'s DFSchema,
    /// Those of type char(n).
    pub chars: &'s [CharColumn],
}

impl TreeNodeRewriter for Types<'_> {
    type Node = Expr;

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) => {
                if compares(op) {
                    trim(&mut [&mut *left, &mut *right], self.chars);
                }
                match operator(*left, op, *right, self.schema)? {
                    Planned::Whole(expr) => Transformed::yes(expr),
                    Planned::Operands(left, right) => Transformed::yes(binary_expr(left, op, right)),
                }
            }
            Expr::Not(truth) => Transformed::yes(Expr::Not(Box::new(self.truth(*truth, "argument of NOT")?))),
            Expr::Between(between) => Transformed::yes(self.between(between)?),
            Expr::InList(list) => Transformed::yes(self.in_list(list)?),
            Expr::InSubquery(within) => Transformed::yes(self.in_subquery(within)?),
            Expr::Cast(cast) => labels::cast(cast, self.schema)?,
            Expr::Case(case) => self.coerced(self.case(case)?)?,
            Expr::ScalarFunction(call) => labels::unfolded(self.function(call)?, self.schema),
            Expr::AggregateFunction(mut call) => {
                match ORDERED.contains(&call.func.name()) {
                    true if call.params.order_by.is_empty() => return Err(unordered(call.func.name())),
                    true => (),
                    false => self.called(call.func.name(), call.func.aliases(), &mut call.params.args)?,
                }
                self.widen(call.func.name(), &mut call.params.args)?;
                self.of_intervals(&mut call)?;
                Transformed::yes(Expr::AggregateFunction(call))
            }
            Expr::WindowFunction(mut call) => {
                for key in &mut call.params.order_by {
                    key.expr = self.framed_by(std::mem::take(&mut key.expr));
                }
                for key in &mut call.params.partition_by {
                    *key = self.sorted_by(std::mem::take(key));
                }
                let aliases = match &call.fun {
                    WindowFunctionDefinition::AggregateUDF(function) => function.aliases(),
                    WindowFunctionDefinition::WindowUDF(function) => function.aliases(),
                };
                self.called(call.fun.name(), aliases, &mut call.params.args)?;
                self.widen(call.fun.name(), &mut call.params.args)?;
                self.default(call.fun.name(), &mut call.params.args)?;
                if let Some(function) = self.interval_aggregate(call.fun.name(), &call.params.args) {
                    call.fun = WindowFunctionDefinition::AggregateUDF(function);
                }
                Transformed::yes(Expr::WindowFunction(call))
            }
            other => Transformed::no(other),
        })
    }
}

impl Types<'_> {
    fn truth(&self, expr: Expr, place: &str) -> Result<Expr> {
        truth(expr, place, self.schema)
    }

    /// What a key of ORDER BY is sorted by: an interval by its length, -0 as 0, an array by its elements.
    pub fn sorted_by(&self, key: Expr) -> Expr {
        match known_type(&key, self.schema) {
            Some(of) if is_interval(&of) => saki_times::length(key),
            Some(of) if of == json::JSONB => json::key(key),
            Some(of) if of.is_floating() => sorted_floats(key),
            Some(of) if lists::element_of(&of).is_some() => arrays::order::key(key),
            _ => key,
        }
    }

    /// The same in a window: a time is its microseconds, and an array is text, as the planner knows no frames of them.
    fn framed_by(&self, key: Expr) -> Expr {
        match known_type(&key, self.schema) {
            Some(Arrow::Time64(_)) => cast(key, Arrow::Int64),
            Some(of) if lists::element_of(&of).is_some() => arrays::order::text_key(key),
            _ => self.sorted_by(key),
        }
    }

    fn between(&self, between: Between) -> Result<Expr> {
        let Between { mut expr, negated, mut low, mut high } = between;
        trim(&mut [&mut *expr, &mut *low, &mut *high], self.chars);
        let (least, low) = comparison(*expr.clone(), Operator::GtEq, *low, self.schema)?;
        let (greatest, high) = comparison(*expr, Operator::LtEq, *high, self.schema)?;
        if least == greatest {
            return Ok(Expr::Between(Between::new(Box::new(least), negated, Box::new(low), Box::new(high))));
        }
        let both = and(binary_expr(least, Operator::GtEq, low), binary_expr(greatest, Operator::LtEq, high));
        Ok(if negated { Expr::Not(Box::new(both)) } else { both })
    }

    fn in_list(&self, list: InList) -> Result<Expr> {
        let InList { mut expr, mut list, negated } = list;
        trim(&mut std::iter::once(&mut *expr).chain(&mut list).collect::<Vec<_>>(), self.chars);
        let is_column = |item: &Expr| matches!(item, Expr::Column(_) | Expr::OuterReferenceColumn(..));
        // As PostgreSQL does: several values are an array, of one type; a single value and columns are compared alone.
        if self.known_types(std::slice::from_ref(&*expr)).contains(&json::JSON) {
            return Err(no_operator(&json::JSON, "=", &json::JSON).into());
        }
        let of_intervals = self.known_types(&list).iter().chain(&known_type(&expr, self.schema)).any(is_interval);
        // The planner takes for a constant whatever is one where there are no rows: a CASE, though it looks at columns.
        let is_computed = |item: &Expr| !is_column(item) && item.any_column_refs();
        if list.len() > 1 && !list.iter().any(is_column) && !of_intervals {
            let mut all = vec![*expr.clone()];
            all.extend(list.iter().cloned());
            if let Some(mut all) = self.together(all)? {
                let expr = Box::new(all.remove(0));
                if all.iter().any(is_computed) {
                    let equal = |item| binary_expr(expr.as_ref().clone(), Operator::Eq, item);
                    return one_of(all.into_iter().map(equal).collect(), negated);
                }
                return Ok(Expr::InList(InList { expr, list: all, negated }));
            }
        }
        let pairs = list.into_iter().map(|item| comparison(*expr.clone(), Operator::Eq, item, self.schema));
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        let alike = pairs.iter().all(|(left, _)| *left == pairs[0].0);
        if alike && !pairs.iter().any(|(_, item)| is_computed(item)) {
            let (mut lefts, list): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let expr = Box::new(lefts.pop().unwrap_or(*expr));
            return Ok(Expr::InList(InList { expr, list, negated }));
        }
        one_of(pairs.into_iter().map(|(left, right)| binary_expr(left, Operator::Eq, right)).collect(), negated)
    }

    /// Expressions of one type; `None` if they have none in common.
    fn together(&self, exprs: Vec<Expr>) -> Result<Option<Vec<Expr>>> {
        let types = self.known_types(&exprs);
        match chosen(types.iter()) {
            Together::Apart => Ok(None),
            Together::As(target) => Ok(Some(all_typed(exprs, &target)?)),
            Together::Cast(target) => {
                let convert = |expr: Expr| converted(expr, &target, self.schema);
                Ok(Some(exprs.into_iter().map(convert).collect::<Result<_>>()?))
            }
            Together::Unknown => Ok(Some(exprs)),
        }
    }

    /// The same, where it is an error that they have none.
    fn chosen(&self, exprs: Vec<Expr>, place: &str) -> Result<Vec<Expr>> {
        let types = self.known_types(&exprs);
        match self.together(exprs)? {
            Some(exprs) => Ok(exprs),
            None => {
                let first = types.first().unwrap_or(&Arrow::Null);
                let other = types.iter().find(|of| chosen([first, *of]) == Together::Apart).unwrap_or(first);
                Err(do_not_match(place, first, other).into())
            }
        }
    }

    /// Types of those expressions that have one.
    fn known_types(&self, exprs: &[Expr]) -> Vec<Arrow> {
        exprs.iter().filter_map(|expr| known_type(expr, self.schema)).filter(|of| *of != Arrow::Null).collect()
    }

    fn in_subquery(&self, within: InSubquery) -> Result<Expr> {
        let InSubquery { expr, mut subquery, negated } = within;
        let column = subquery.subquery.schema().field(0).data_type().clone();
        let mut expr = typed(*expr, &column)?;
        if let Some(of_expr) = known_type(&expr, self.schema) {
            match compared(&of_expr, &column) {
                Together::Apart if !is_special(&expr, self.schema) => {
                    return Err(no_operator(&of_expr, "=", &column).into());
                }
                _ if is_interval(&of_expr) && is_interval(&column) => {
                    expr = saki_times::length(expr);
                    subquery = intervals::lengths(subquery)?;
                }
                Together::Cast(target) => {
                    expr = converted(expr, &target, self.schema)?;
                    subquery.subquery = sets::with_types(subquery.subquery, &[Some(target)])?;
                }
                _ => {}
            }
        }
        Ok(Expr::InSubquery(InSubquery { expr: Box::new(expr), subquery, negated }))
    }

    fn case(&self, case: Case) -> Result<Expr> {
        let Case { mut expr, when_then_expr, else_expr } = case;
        let (mut whens, mut results): (Vec<Expr>, Vec<Expr>) =
            when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
        match expr.take() {
            Some(mut operand) => {
                trim(&mut std::iter::once(&mut *operand).chain(&mut whens).collect::<Vec<_>>(), self.chars);
                let pairs = whens.into_iter().map(|when| comparison(*operand.clone(), Operator::Eq, when, self.schema));
                let pairs = pairs.collect::<Result<Vec<_>>>()?;
                if pairs.iter().all(|(left, _)| *left == pairs[0].0) {
                    let (mut lefts, rights): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
                    expr = lefts.pop().map(Box::new);
                    whens = rights;
                } else {
                    let equal = |(left, right)| binary_expr(left, Operator::Eq, right);
                    whens = pairs.into_iter().map(equal).collect();
                }
            }
            None => {
                let truths = whens.into_iter().map(|when| self.truth(when, "argument of CASE/WHEN"));
                whens = truths.collect::<Result<_>>()?;
            }
        }
        // PostgreSQL asks for the type of ELSE first.
        let has_else = else_expr.is_some();
        if let Some(otherwise) = else_expr {
            results.insert(0, *otherwise);
        }
        let mut results = self.chosen(results, "CASE")?.into_iter();
        let else_expr = if has_else { results.next().map(Box::new) } else { None };
        let when_then_expr = whens.into_iter().zip(results).map(|(when, then)| (Box::new(when), Box::new(then)));
        Ok(Expr::Case(Case { expr, when_then_expr: when_then_expr.collect(), else_expr }))
    }

    fn function(&self, call: ScalarFunction) -> Result<Transformed<Expr>> {
        let ScalarFunction { func, mut args } = call;
        if let Some((_, place)) = CHOOSING.iter().find(|(name, _)| *name == func.name()) {
            args = self.chosen(args, place)?;
        } else if func.name() == "nullif" && args.len() == 2 {
            let (value, right) = (args.remove(0), args.remove(0));
            let (left, right) = comparison(value.clone(), Operator::Eq, right, self.schema)?;
            if known_type(&value, self.schema).as_ref().is_some_and(is_interval) {
                // Lengths are compared, and the interval is what is given.
                let nothing = lit(ScalarValue::IntervalMonthDayNano(None));
                let chosen = when(binary_expr(left, Operator::Eq, right), nothing).otherwise(value)?;
                return Ok(Transformed::yes(chosen));
            }
            args = vec![left, right];
        } else if func.name() == SERIES {
            let of = |arg: &Expr| known_type(arg, self.schema).unwrap_or(Arrow::Null);
            let targets = argument_types(&args.iter().map(of).collect::<Vec<_>>())?;
            let pairs = args.into_iter().zip(&targets);
            args = pairs.map(|(arg, target)| converted(arg, target, self.schema)).collect::<Result<_>>()?;
        } else {
            labels::refuse_casts(func.name(), &args, self.schema)?;
            self.called(func.name(), func.aliases(), &mut args)?;
            self.parameters(&func, &mut args)?;
            if func.name() == "array_to_string" {
                args = labels::as_texts(args, self.schema);
            }
            let blanks = match &args[..] {
                [of_char] if func.name() == "octet_length" => blanks_of(of_char, self.chars),
                _ => None,
            };
            if let Some(blanks) = blanks {
                let octets = Expr::ScalarFunction(ScalarFunction { func, args });
                return Ok(Transformed::yes(binary_expr(cast(octets, Arrow::Int32), Operator::Plus, blanks)));
            }
            let call = ScalarFunction { func, args };
            if COUNTING.contains(&call.name()) {
                // An empty array has no dimension that could have a length.
                let has_none = (call.name() == "array_length")
                    .then(|| nullif().call(vec![Expr::ScalarFunction(call.clone()), lit(0_u64)]));
                let count = has_none.unwrap_or(Expr::ScalarFunction(call));
                return Ok(Transformed::yes(cast(count, Arrow::Int32)));
            }
            if call.name() == "array_positions" {
                let places = Arrow::List(Arc::new(Field::new_list_field(Arrow::Int32, true)));
                return Ok(Transformed::yes(cast(Expr::ScalarFunction(call), places)));
            }
            return Ok(Transformed::yes(to_char::settled(numeric::folded(field(call, self.schema))?)?));
        }
        self.coerced(Expr::ScalarFunction(ScalarFunction { func, args }))
    }

    /// Gives texts and parameters without a type the type that the function takes there.
    ///
    /// # Errors
    /// 42883 and 42725 if there is no such function, or not one.
    fn called(&self, name: &str, aliases: &[String], args: &mut [Expr]) -> Result<()> {
        let names: Vec<&str> = std::iter::once(name).chain(aliases.iter().map(String::as_str)).collect();
        let Some(types) = args.iter().map(|arg| self.oid(arg)).collect::<Option<Vec<_>>>() else { return Ok(()) };
        let shown =
            |at: usize| known_type(&args[at], self.schema).map_or_else(|| "unknown".to_owned(), |of| type_name(&of));
        let form = match called(&names, &types, shown) {
            Ok(Some(form)) => form,
            Ok(None) => return Ok(()),
            // Types of system relations are more than their Arrow type says.
            Err(_) if args.iter().any(|arg| is_special(arg, self.schema)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let labels = self.known_types(args).into_iter().find(|of| enumeration(of).is_some());
        let list = self.known_types(args).into_iter().find(|of| matches!(of, Arrow::List(_)));
        for ((arg, of), to) in args.iter_mut().zip(types).zip(form) {
            let texts = || (to == TEXTS).then(|| Arrow::List(Arc::new(Field::new_list_field(Arrow::Utf8, true))));
            let label = || labels.clone().filter(|_| to == ANY_ENUM);
            let array = || match &list {
                Some(list) if ANY_ARRAY.contains(&to) => Some(list.clone()),
                Some(Arrow::List(element)) if ANY_ELEMENT.contains(&to) => Some(element.data_type().clone()),
                _ => None,
            };
            let target = value_type(to).or_else(texts).or_else(label).or_else(array);
            if let Some(target) = target.filter(|_| of == UNKNOWN) {
                *arg = typed(std::mem::take(arg), &target)?;
            }
        }
        Ok(())
    }

    /// PostgreSQL's type of an argument; `None` for types that it does not have.
    fn oid(&self, arg: &Expr) -> Option<i64> {
        match known_type(arg, self.schema) {
            None => Some(UNKNOWN),
            Some(Arrow::UInt8 | Arrow::UInt16 | Arrow::UInt32 | Arrow::UInt64) => None,
            Some(of) => oid_of_value(&of).filter(|oid| *oid != 0),
        }
    }

    /// Parameters that have no type yet: what a function that PostgreSQL lacks takes there and nothing else, and an
    /// array that a value is looked for in.
    fn parameters(&self, function: &ScalarUDF, args: &mut [Expr]) -> Result<()> {
        let is_open = |arg: &Expr| matches!(arg, Expr::Placeholder(Placeholder { field: None, .. }));
        let count = args.len();
        for (at, arg) in args.iter_mut().enumerate().filter(|(_, arg)| is_open(arg)) {
            if let Some(only) = only_type(&function.signature().type_signature, count, at) {
                *arg = typed(std::mem::take(arg), &only)?;
            }
        }
        if let ("array_has", [list, needle]) = (function.name(), args)
            && is_open(list)
            && let Some(of) = known_type(needle, self.schema)
        {
            let of = Arrow::List(Field::new_list_field(of, true).into());
            *list = typed(std::mem::take(list), &of)?;
        }
        Ok(())
    }

    /// What `lead` and `lag` give instead of a row that there is not is of one type with what they give of rows.
    fn default(&self, function: &str, args: &mut Vec<Expr>) -> Result<()> {
        if args.len() != 3 || !matches!(function, "lead" | "lag") {
            return Ok(());
        }
        let (default, value) = (args.remove(2), args.remove(0));
        // The planner's own CASE has the type that both have in common.
        let both = Case {
            expr: None,
            when_then_expr: vec![(Box::new(lit(true)), Box::new(value))],
            else_expr: Some(Box::new(default)),
        };
        let Expr::Case(Case { when_then_expr, else_expr: Some(default), .. }) = self.coerced(self.case(both)?)?.data
        else {
            return Err(SqlError::internal("a CASE became none").into());
        };
        args.extend(when_then_expr.into_iter().map(|(_, value)| *value));
        args.rotate_right(1);
        args.push(*default);
        Ok(())
    }

    /// Sums of bigints and averages of integers are numeric.
    fn widen(&self, aggregate: &str, args: &mut [Expr]) -> Result<()> {
        let [arg] = args else { return Ok(()) };
        let digits = match known_type(arg, self.schema) {
            Some(Arrow::Int16) => 5,
            Some(Arrow::Int32) => 10,
            Some(Arrow::Int64) => 19,
            _ => return Ok(()),
        };
        let target = match aggregate {
            "sum" if digits == 19 => Arrow::Decimal128(digits, 0),
            "avg" => Arrow::Decimal128(digits, 0),
            _ => return Ok(()),
        };
        *arg = cast(std::mem::take(arg), target);
        Ok(())
    }

    /// The aggregate that takes the place of another over arrays.
    fn array_aggregate(&self, name: &str, args: &[Expr]) -> Option<Arc<AggregateUDF>> {
        let [arg] = args else { return None };
        known_type(arg, self.schema).as_ref().and_then(lists::element_of).and_then(|_| of_arrays(name))
    }

    /// The same over intervals.
    fn interval_aggregate(&self, name: &str, args: &[Expr]) -> Option<Arc<AggregateUDF>> {
        let [arg] = args else { return None };
        known_type(arg, self.schema).filter(is_interval).and_then(|_| of_intervals(name))
    }

    /// Aggregates of intervals, and by intervals, compare these by their length.
    fn of_intervals(&self, call: &mut AggregateFunction) -> Result<()> {
        let is_ordered = ORDERED.contains(&call.func.name());
        let params = &mut call.params;
        if let Some(function) = self.interval_aggregate(call.func.name(), &params.args) {
            // Of equal values one is the least and the greatest.
            params.distinct &= !matches!(call.func.name(), "min" | "max");
            params.args =
                std::mem::take(&mut params.args).into_iter().map(|arg| cast(arg, saki_times::INTERVAL)).collect();
            call.func = function;
        } else if let Some(function) = self.array_aggregate(call.func.name(), &params.args) {
            params.distinct = false;
            call.func = function;
        } else if call.func.name() == "count" && params.distinct {
            params.args = std::mem::take(&mut params.args).into_iter().map(|arg| self.sorted_by(arg)).collect();
        }
        // Of a DISTINCT aggregate the keys are its arguments, and stay them.
        if !is_ordered && !params.distinct {
            for key in &mut params.order_by {
                key.expr = self.sorted_by(std::mem::take(&mut key.expr));
            }
        }
        Ok(())
    }

    /// What the planner brings together by itself, brought together now, so that what is around it sees its type.
    fn coerced(&self, expr: Expr) -> Result<Transformed<Expr>> {
        TypeCoercionRewriter::new(self.schema).f_up(expr)
    }
}

/// Whether one of some comparisons is true, or none.
fn one_of(comparisons: Vec<Expr>, negated: bool) -> Result<Expr> {
    let any = comparisons.into_iter().reduce(or).ok_or_else(|| SqlError::internal("IN without a list"))?;
    Ok(if negated { Expr::Not(Box::new(any)) } else { any })
}

fn all_typed(exprs: Vec<Expr>, target: &Arrow) -> Result<Vec<Expr>> {
    exprs.into_iter().map(|expr| typed(expr, target)).collect()
}

/// The type of the argument at a place, if a function has it in all of its forms that take so many.
fn only_type(signature: &TypeSignature, count: usize, at: usize) -> Option<Arrow> {
    let forms = match signature {
        TypeSignature::OneOf(forms) => forms.as_slice(),
        form => std::slice::from_ref(form),
    };
    let mut found = None;
    for form in forms {
        match form {
            TypeSignature::Exact(types) if types.len() == count => match &found {
                None => found = Some(&types[at]),
                Some(known) if **known == types[at] => {}
                Some(_) => return None,
            },
            TypeSignature::Exact(_) | TypeSignature::Nullary => {}
            _ => return None,
        }
    }
    found.cloned()
}

fn unordered(name: &str) -> DataFusionError {
    SqlError::data(format!("WITHIN GROUP is required for ordered-set aggregate {name}")).code("42809").into()
}
