//! Compiled statements run by themselves, and what they answer: how many rows, and which.

use saki_base::Value;
use saki_sql::{FastAnswer, FastPlan, RowSink, ScalarValue, Session, ValueRef};

/// Rows as texts, their values apart by `|`.
#[derive(Default)]
pub struct Texts {
    pub rows: Vec<String>,
    /// How often they were void.
    pub cleared: usize,
}

impl RowSink for Texts {
    fn clear(&mut self) {
        self.rows.clear();
        self.cleared += 1;
    }

    fn row(&mut self, values: &[ValueRef<'_>]) {
        let text = |value: &ValueRef<'_>| match Value::from(*value) {
            Value::Null => String::new(),
            Value::Int2(value) => value.to_string(),
            Value::Int4(value) => value.to_string(),
            Value::Int8(value) => value.to_string(),
            Value::Text(value) => value.to_string(),
            other => format!("{other:?}"),
        };
        self.rows.push(values.iter().map(text).collect::<Vec<_>>().join("|"));
    }
}

/// A statement compiled.
pub fn plan(session: &Session, sql: &str) -> std::sync::Arc<FastPlan> {
    let prepared = session.prepare_fast(sql, &[]).unwrap_or_else(|| panic!("{sql} is not compiled"));
    prepared.fast.expect("compiled")
}

/// What a compiled statement answers: its rows, and how many it gave or concerned; `None` if it went the ordinary way.
pub async fn answer(
    session: &Session,
    plan: &FastPlan,
    values: &[ScalarValue],
) -> Result<Option<(u64, Vec<String>)>, String> {
    let mut texts = Texts::default();
    match session.execute_fast(plan, values, &mut texts).await {
        Ok(FastAnswer::Done(rows)) => Ok(Some((rows, texts.rows))),
        Ok(FastAnswer::Ordinary) => Ok(None),
        Err(error) => Err(error.sqlstate().to_owned()),
    }
}

/// The same of a statement that is expected to run without a plan; the condition that it fails with.
pub async fn done(session: &Session, sql: &str) -> Result<(u64, Vec<String>), String> {
    let answer = answer(session, &plan(session, sql), &[]).await?;
    Ok(answer.unwrap_or_else(|| panic!("{sql} went the ordinary way")))
}
