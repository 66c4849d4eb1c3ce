//! Rows of the source, beside the rows of the table that they have met, and the clauses that they are for.

use arrow::compute::{filter_record_batch, is_not_null, not, take_record_batch};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, UInt32Array};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, TableWithJoins,
};

use super::super::query::{
    Target, distinctly_named, merged, named, old_columns, ordinal_item, ordinals_of, relation, same_ordinal, select,
    stand_in, table_batch, with_ordinals,
};
use super::statement::Merge;
use saki_catalog::{ROW_ID, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::transaction::ChangeEnv;
use saki_plan::StandIns;
use saki_postgres::statement::{MergedAs, WhenClause, parse_expression};

/// Names that no table has: subqueries see the tables themselves.
const OF_SOURCE: &str = "rows of the source";
const OF_TABLE: &str = "rows of the table";

/// Rows of the source that have met rows of the table, or rows that have met none.
pub struct Met<'m> {
    pub is_matched: bool,
    /// Columns of the table, its hidden row id where there is one, and from `source` on those of the source.
    pub found: RecordBatch,
    first_of_source: usize,
    target: &'m Target,
    source: &'m Ident,
    table: &'m Table,
}

impl<'m> Met<'m> {
    /// Those that have met, and those that have not, as far as a clause may do something with them.
    pub async fn find(
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        merge: &'m Merge,
        table: &'m Table,
        clauses: &[WhenClause<'_>],
    ) -> Result<Vec<Self>> {
        let has = |is_matched: bool| clauses.iter().any(|clause| clause.is_matched == is_matched);
        let (target, source) = (&merge.target, &merge.source);
        let mut items = old_columns(table, target);
        let first_of_source = items.len();
        let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![source.clone()]));
        items.push(SelectItem::QualifiedWildcard(name, Default::default()));
        // A column of the table that is never NULL, but where there is no row of it.
        let (mark, place) = match table.primary_key.first() {
            Some(place) => (table.columns[*place].name.as_str(), *place),
            None => (ROW_ID, table.width()),
        };
        let is_alone = (!has(true)).then(|| Expr::IsNull(Box::new(target.column(mark))));
        let query = select(items, vec![merged(&merge.merge, has(false))], is_alone)?;
        let found = cx.rows_of(&env.with_row_id(table), query).await?;
        let found = distinctly_named(&found, first_of_source)?;
        let is_matched = is_not_null(found.column(place))?;
        let met = |is_matched, found| Self { is_matched, found, first_of_source, target, source, table };
        let mut all = Vec::new();
        if has(true) {
            all.push(met(true, filter_record_batch(&found, &is_matched)?));
        }
        if has(false) {
            all.push(met(false, filter_record_batch(&found, &not(&is_matched)?)?));
        }
        Ok(all)
    }

    /// The same with some of the rows.
    pub fn of_rows(&self, rows: Vec<u32>) -> Result<Self> {
        let found = match rows.len() == self.found.num_rows() && rows.is_sorted() {
            true => self.found.clone(),
            false => take_record_batch(&self.found, &UInt32Array::from(rows))?,
        };
        Ok(Self { found, ..*self })
    }

    /// Clauses, and the rows that each is for: the first whose condition they meet.
    pub async fn decided(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        clauses: &[WhenClause<'_>],
    ) -> Result<Vec<(usize, Vec<u32>)>> {
        let own: Vec<usize> = (0..clauses.len()).filter(|at| clauses[*at].is_matched == self.is_matched).collect();
        let mut decided: Vec<(usize, Vec<u32>)> = own.iter().map(|clause| (*clause, Vec::new())).collect();
        let conditions: Vec<(usize, &Expr)> =
            own.iter().enumerate().filter_map(|(place, at)| Some((place, clauses[*at].condition?))).collect();
        let rest = own.iter().position(|at| clauses[*at].condition.is_none());
        if conditions.is_empty() {
            if let Some(rest) = rest {
                decided[rest].1 = (0..self.found.num_rows() as u32).collect();
            }
        } else {
            let cases: String =
                conditions.iter().map(|(place, condition)| format!(" WHEN {condition} THEN {place}")).collect();
            let rest = rest.map(|rest| format!(" ELSE {rest}")).unwrap_or_default();
            let choice = parse_expression(&format!("CAST(CASE{cases}{rest} END AS bigint)"))?;
            let (rows, chosen) = self.ask(cx, env, vec![named(choice, "clause".to_owned())]).await?;
            let chosen = chosen.column(1).as_primitive_opt::<Int64Type>();
            let chosen = chosen.ok_or_else(|| SqlError::internal("a choice that is no number"))?;
            for (row, clause) in rows.into_iter().zip(chosen) {
                if let Some(clause) = clause {
                    decided[clause as usize].1.push(row);
                }
            }
        }
        decided.retain(|(clause, _)| !matches!(clauses[*clause].action, MergedAs::Nothing));
        Ok(decided)
    }

    /// What a query gives of each row that has met, or has not; their positions, and its columns from the second on.
    pub async fn ask(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        mut items: Vec<SelectItem>,
    ) -> Result<(Vec<u32>, RecordBatch)> {
        items.insert(0, ordinal_item(self.source));
        let found = cx.rows_of(&self.env(env)?, self.query(items)?).await?;
        Ok((ordinals_of(&found)?, found))
    }

    /// A query over the rows: of the source, and those of the table that they have met.
    pub fn query(&self, items: Vec<SelectItem>) -> Result<Query> {
        let same = self.is_matched.then(|| same_ordinal(self.source, &self.target.alias));
        select(items, self.relations()?, same)
    }

    /// The relations that a clause may name.
    pub fn relations(&self) -> Result<Vec<TableWithJoins>> {
        let mut relations = vec![relation(OF_SOURCE, Some(self.source))?];
        if self.is_matched {
            relations.push(relation(OF_TABLE, Some(&self.target.alias))?);
        }
        Ok(relations)
    }

    /// Where these relations are the rows.
    pub fn env<'r>(&self, env: &ChangeEnv<'r>) -> Result<ChangeEnv<'r>> {
        let places: Vec<usize> = (self.first_of_source..self.found.num_columns()).collect();
        let source = with_ordinals(&self.found.project(&places)?)?;
        let mut stand_ins = StandIns::from([(OF_SOURCE.to_owned(), stand_in(source)?)]);
        if self.is_matched {
            let table = with_ordinals(&table_batch(&self.found, self.table, 0)?)?;
            stand_ins.insert(OF_TABLE.to_owned(), stand_in(table)?);
        }
        Ok(env.with_stand_ins(stand_ins))
    }
}
