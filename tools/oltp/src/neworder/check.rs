//! Whether the tables say what was done to them.

use std::ops::ControlFlow;

use saki_mvcc::{Database, Direction, Isolation, KeyRange};
use saki_report::Report;

use super::{Ledger, Scale, Tables};

/// Counts and sums of all rows, as one snapshot has them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sums {
    pub items: u64,
    pub stocks: u64,
    pub stock_ytd: u64,
    pub stock_orders: u64,
    pub stock_remote: u64,
    /// Of all `s_quantity`.
    pub stock_quantity: i64,
    pub lines: u64,
    pub line_quantity: u64,
    pub line_amount: u64,
}

impl Sums {
    /// # Errors
    /// What the engine says.
    pub fn of(database: &Database, tables: &Tables) -> Result<Self, String> {
        let mut runner = database.runner().map_err(|error| error.to_string())?;
        let transaction = runner.begin(Isolation::Snapshot);
        let Tables { item, stock, order_line } = tables;
        let mut sums = Self::default();
        transaction.scan(&item.table, &KeyRange::all(), Direction::Forward, |_| {
            sums.items += 1;
            ControlFlow::Continue(())
        });
        transaction.scan(&stock.table, &KeyRange::all(), Direction::Forward, |found| {
            sums.stocks += 1;
            sums.stock_ytd += stock.ytd.read(found.body) as u64;
            sums.stock_orders += stock.order_count.read(found.body) as u64;
            sums.stock_remote += stock.remote_count.read(found.body) as u64;
            sums.stock_quantity += i64::from(stock.quantity.read(found.body));
            ControlFlow::Continue(())
        });
        transaction.scan(&order_line.table, &KeyRange::all(), Direction::Forward, |found| {
            sums.lines += 1;
            sums.line_quantity += order_line.quantity.read(found.body) as u64;
            sums.line_amount += order_line.amount.read(found.body) as u64;
            ControlFlow::Continue(())
        });
        Ok(sums)
    }
}

/// Checks the sums after a run against those before and what the workers did.
pub fn agree(report: &mut Report, what: &str, before: &Sums, after: &Sums, done: &Ledger, scale: Scale) {
    let stocks = scale.items as u64 * scale.warehouses as u64;
    // Each line takes its quantity and may have 91 put on top.
    let refilled = after.stock_quantity - before.stock_quantity + done.quantity as i64;
    let facts = [
        ("items", after.items, scale.items as u64),
        ("stocks", after.stocks, stocks),
        ("order lines", after.lines, done.lines),
        ("pieces on order lines", after.line_quantity, done.quantity),
        ("cents on order lines", after.line_amount, done.amount),
        ("s_ytd", after.stock_ytd - before.stock_ytd, done.quantity),
        ("s_order_cnt", after.stock_orders - before.stock_orders, done.lines),
        ("s_remote_cnt", after.stock_remote - before.stock_remote, done.remote_lines),
        ("pieces put into stock beyond multiples of 91", refilled.rem_euclid(91) as u64, 0),
    ];
    for (name, found, expected) in facts {
        report.check(found == expected, || format!("{what}: {name}: {found}, but transactions made {expected}"));
    }
}
