//! The Stock-Level transaction, clause 2.8.

use std::ops::{Bound, ControlFlow};

use saki_mvcc::{Direction, Error, Isolation, KeyRange, Runner};

use super::context::{Context, absent};
use super::random::uniform;
use super::schema::{RowKey, district_key, numbered_key, stock_key};
use crate::driver::End;

/// Orders that are looked at.
const RECENT: i32 = 20;

/// The input, memory to run with, and what the terminal would show.
#[derive(Default)]
pub struct StockLevel {
    district: i16,
    threshold: i32,
    items: Vec<i32>,
    keys: Vec<RowKey>,
    low: u64,
}

impl StockLevel {
    /// Clause 2.8.1. The specification has one district per terminal; here a worker stands for all of them.
    pub fn draw(&mut self, context: &mut Context<'_>) {
        self.district = context.draw_district();
        self.threshold = uniform(&mut context.random, 10, 20);
    }

    /// Clause 2.8.2.
    pub fn run(&mut self, context: &Context<'_>, runner: &mut Runner) -> Result<End, Error> {
        let tables = context.tables;
        let (warehouse, district) = (context.warehouse, self.district);
        let transaction = runner.begin(Isolation::Serializable);
        let found = transaction.get(&tables.district, district_key(warehouse, district).as_ref());
        let next = tables.d_next_order.read(found.ok_or_else(|| absent("a district"))?.body);
        let first = numbered_key(warehouse, district, (next - RECENT).max(1));
        let after = numbered_key(warehouse, district, next);
        let range = KeyRange::between(Bound::Included(first.as_ref()), Bound::Excluded(after.as_ref()));
        self.items.clear();
        transaction.scan(&tables.order_line.table, &range, Direction::Forward, |found| {
            self.items.push(tables.order_line.item.read(found.body));
            ControlFlow::Continue(())
        });
        self.items.sort_unstable();
        self.items.dedup();
        self.keys.clear();
        self.keys.extend(self.items.iter().map(|item| stock_key(warehouse, *item)));
        let stock = &tables.stock;
        let (mut low, mut absent_count) = (0, 0);
        transaction.get_many(&stock.table, &self.keys, |_, found| match found {
            Some(found) => low += u64::from(stock.quantity.read(found.body) < self.threshold),
            None => absent_count += 1,
        });
        if absent_count > 0 {
            return Err(absent("a stock"));
        }
        let receipt = transaction.commit_early()?;
        self.low = low;
        Ok(End::Committed(receipt))
    }
}
