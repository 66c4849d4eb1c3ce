//! The consistency conditions, clause 3.3.2, looked at in one snapshot.
//!
//! One pass over each table gathers what the conditions are about, by warehouse, district and customer. Orders, new
//! orders and order lines have the same key order, so that what belongs to one order comes together.

use std::ops::ControlFlow;

use saki_mvcc::{Database, Direction, Isolation, KeyRange, Transaction};
use saki_report::Report;

use super::load::Scale;
use super::schema::{DISTRICT_AT, DISTRICTS, NUMBER_AT, Tables};
use crate::codec::{int2_of_key, int4_of_key};

/// What there is of a district.
#[derive(Clone, Default)]
struct District {
    ytd: i64,
    next_order: i32,
    orders: Vec<Order>,
    /// New orders: their numbers.
    new_orders: Vec<i32>,
    history: i64,
    customers: Vec<Customer>,
}

/// An order, as its row and its lines say.
#[derive(Clone, Default)]
struct Order {
    number: i32,
    customer: i32,
    has_carrier: bool,
    line_count: i32,
    lines: i32,
    delivered_lines: i32,
    amount: i64,
}

#[derive(Clone, Default)]
struct Customer {
    balance: i64,
    ytd_payment: i64,
    /// By history.
    paid: i64,
}

/// Which of the conditions a fault is against, and the first of them.
struct Faults<'a> {
    report: &'a mut Report,
    what: &'a str,
}

impl Faults<'_> {
    /// One check for all cases of a condition; the first that fails is named.
    fn condition(&mut self, number: u32, mut cases: impl Iterator<Item = Option<String>>) {
        let first = cases.find_map(|fault| fault);
        let what = self.what;
        self.report.check(first.is_none(), || {
            format!("{what}: consistency condition {number}: {}", first.unwrap_or_default())
        });
    }
}

/// Checks the conditions; `delivered` orders have been delivered since the load.
///
/// # Errors
/// What the engine says.
pub fn check(
    database: &Database,
    tables: &Tables,
    scale: Scale,
    delivered: u64,
    what: &str,
    report: &mut Report,
) -> Result<(), String> {
    let mut runner = database.runner().map_err(|error| error.to_string())?;
    check_in(&runner.begin(Isolation::Snapshot), tables, scale, delivered, what, report);
    Ok(())
}

/// As one transaction sees it.
fn check_in(
    transaction: &Transaction<'_>,
    tables: &Tables,
    scale: Scale,
    delivered: u64,
    what: &str,
    report: &mut Report,
) {
    let mut gathered =
        Gathered { districts: vec![District::default(); scale.warehouses as usize * DISTRICTS as usize] };
    let warehouses = gathered.all(transaction, tables, scale);
    let mut faults = Faults { report, what };
    totals(&mut faults, &gathered, &warehouses, scale);
    orders(&mut faults, &gathered, scale, delivered);
    customers(&mut faults, &gathered);
}

/// Conditions 1, 8 and 9: what warehouses and districts took in.
fn totals(faults: &mut Faults<'_>, gathered: &Gathered, warehouses: &[i64], scale: Scale) {
    let of = |warehouse: usize| gathered.districts.chunks(DISTRICTS as usize).nth(warehouse).unwrap_or_default();
    let count = warehouses.len();
    let present = (count != scale.warehouses as usize).then(|| format!("there are {count} warehouses"));
    let ytd = warehouses.iter().enumerate().map(|(warehouse, ytd)| {
        let sum: i64 = of(warehouse).iter().map(|district| district.ytd).sum();
        (*ytd != sum).then(|| format!("warehouse {} has w_ytd {ytd}, its districts {sum}", warehouse + 1))
    });
    faults.condition(1, std::iter::once(present).chain(ytd));
    let history = warehouses.iter().enumerate().map(|(warehouse, ytd)| {
        let sum: i64 = of(warehouse).iter().map(|district| district.history).sum();
        (*ytd != sum).then(|| format!("warehouse {} has w_ytd {ytd}, its history {sum}", warehouse + 1))
    });
    faults.condition(8, history);
    faults.condition(
        9,
        gathered.named().map(|(name, district)| {
            (district.ytd != district.history)
                .then(|| format!("{name} has d_ytd {}, its history {}", district.ytd, district.history))
        }),
    );
}

/// Conditions 2 to 7 and 11: orders, their lines, and which are new.
fn orders(faults: &mut Faults<'_>, gathered: &Gathered, scale: Scale, delivered: u64) {
    faults.condition(
        2,
        gathered.named().map(|(name, district)| {
            let last = district.orders.last().map_or(0, |order| order.number);
            let newest = district.new_orders.last().copied().unwrap_or(last);
            (district.next_order - 1 != last || newest != last).then(|| {
                let next = district.next_order;
                format!("{name} has d_next_o_id {next}, last order {last}, last new order {newest}")
            })
        }),
    );
    faults.condition(
        3,
        gathered.named().map(|(name, district)| {
            let new_orders = &district.new_orders;
            let (first, last) = (new_orders.first()?, new_orders.last()?);
            let count = new_orders.len();
            ((last - first + 1) as usize != count)
                .then(|| format!("{name} has {count} new orders from {first} to {last}"))
        }),
    );
    faults.condition(
        4,
        gathered.named().map(|(name, district)| {
            let said: i64 = district.orders.iter().map(|order| i64::from(order.line_count)).sum();
            let lines: i64 = district.orders.iter().map(|order| i64::from(order.lines)).sum();
            (said != lines).then(|| format!("{name} has {lines} order lines, its orders say {said}"))
        }),
    );
    faults.condition(
        5,
        gathered.orders().map(|(name, district, order)| {
            let is_new = district.new_orders.binary_search(&order.number).is_ok();
            let number = order.number;
            (is_new == order.has_carrier)
                .then(|| format!("order {number} of {name}: new is {is_new}, with carrier {}", order.has_carrier))
        }),
    );
    faults.condition(
        6,
        gathered.orders().map(|(name, _, order)| {
            let Order { number, lines, line_count, .. } = order;
            (lines != line_count).then(|| format!("order {number} of {name} has {lines} lines, says {line_count}"))
        }),
    );
    faults.condition(
        7,
        gathered.orders().map(|(name, _, order)| {
            let Order { number, lines, delivered_lines, .. } = order;
            let expected = if order.has_carrier { *lines } else { 0 };
            (*delivered_lines != expected)
                .then(|| format!("order {number} of {name} has {delivered_lines} delivered lines of {lines}"))
        }),
    );
    // The clause is about a database just loaded; deliveries since are those that were counted.
    let old =
        gathered.districts.iter().map(|district| district.orders.len() - district.new_orders.len()).sum::<usize>();
    let expected = gathered.districts.len() as u64 * scale.delivered() as u64 + delivered;
    let fault = (old as u64 != expected).then(|| format!("{old} orders are delivered, not {expected}"));
    faults.condition(11, std::iter::once(fault));
}

/// Conditions 10 and 12: what customers owe.
fn customers(faults: &mut Faults<'_>, gathered: &Gathered) {
    // By district and customer, the amount of what was delivered.
    let delivered: Vec<Vec<i64>> = gathered
        .districts
        .iter()
        .map(|district| {
            let mut amounts = vec![0; district.customers.len()];
            for order in district.orders.iter().filter(|order| order.has_carrier) {
                if let Some(amount) = amounts.get_mut(order.customer as usize - 1) {
                    *amount += order.amount;
                }
            }
            amounts
        })
        .collect();
    let each = || {
        gathered.named().zip(&delivered).flat_map(|((name, district), delivered)| {
            let customers = (1..).zip(district.customers.iter().zip(delivered));
            customers.map(move |(number, (customer, delivered))| (name.clone(), number, customer, *delivered))
        })
    };
    faults.condition(
        10,
        each().map(|(name, number, customer, delivered)| {
            let expected = delivered - customer.paid;
            let balance = customer.balance;
            (balance != expected).then(|| format!("customer {number} of {name} has balance {balance}, not {expected}"))
        }),
    );
    faults.condition(
        12,
        each().map(|(name, number, customer, delivered)| {
            let sum = customer.balance + customer.ytd_payment;
            (sum != delivered)
                .then(|| format!("customer {number} of {name}: balance and payments are {sum}, delivered {delivered}"))
        }),
    );
}

/// All districts, warehouse by warehouse.
struct Gathered {
    districts: Vec<District>,
}

impl Gathered {
    fn named(&self) -> impl Iterator<Item = (String, &District)> {
        self.districts.iter().enumerate().map(|(index, district)| {
            let (warehouse, number) = (index / DISTRICTS as usize + 1, index % DISTRICTS as usize + 1);
            (format!("district {number} of warehouse {warehouse}"), district)
        })
    }

    fn orders(&self) -> impl Iterator<Item = (String, &District, &Order)> {
        self.named()
            .flat_map(|(name, district)| district.orders.iter().map(move |order| (name.clone(), district, order)))
    }

    fn of(&mut self, warehouse: i32, district: i16) -> &mut District {
        &mut self.districts[(warehouse as usize - 1) * DISTRICTS as usize + district as usize - 1]
    }

    fn of_key(&mut self, key: &[u8]) -> &mut District {
        self.of(int4_of_key(key, 0), int2_of_key(key, DISTRICT_AT))
    }

    /// Fills it; `w_ytd` of the warehouses.
    fn all(&mut self, transaction: &Transaction<'_>, tables: &Tables, scale: Scale) -> Vec<i64> {
        let forward = Direction::Forward;
        let all = KeyRange::all();
        let mut warehouses = Vec::new();
        transaction.scan(&tables.warehouse, &all, forward, |found| {
            warehouses.push(tables.w_ytd.read(found.body));
            ControlFlow::Continue(())
        });
        transaction.scan(&tables.district, &all, forward, |found| {
            let district = self.of_key(found.key);
            district.ytd = tables.d_ytd.read(found.body);
            district.next_order = tables.d_next_order.read(found.body);
            district.customers.resize(scale.customers as usize, Customer::default());
            ControlFlow::Continue(())
        });
        let of = &tables.customer;
        transaction.scan(&of.table, &all, forward, |found| {
            let number = int4_of_key(found.key, NUMBER_AT);
            let customer = &mut self.of_key(found.key).customers[number as usize - 1];
            customer.balance = of.balance.read(found.body);
            customer.ytd_payment = of.ytd_payment.read(found.body);
            ControlFlow::Continue(())
        });
        self.history(transaction, tables);
        transaction.scan(&tables.new_order, &all, forward, |found| {
            let number = int4_of_key(found.key, NUMBER_AT);
            self.of_key(found.key).new_orders.push(number);
            ControlFlow::Continue(())
        });
        self.gather_orders(transaction, tables);
        warehouses
    }

    fn history(&mut self, transaction: &Transaction<'_>, tables: &Tables) {
        let history = &tables.history;
        transaction.scan(&history.table, &KeyRange::all(), Direction::Forward, |found| {
            let amount = history.amount.read(found.body);
            self.of(history.warehouse.read(found.body), history.district.read(found.body)).history += amount;
            let district =
                self.of(history.customer_warehouse.read(found.body), history.customer_district.read(found.body));
            district.customers[history.customer.read(found.body) as usize - 1].paid += amount;
            ControlFlow::Continue(())
        });
    }

    fn gather_orders(&mut self, transaction: &Transaction<'_>, tables: &Tables) {
        let order = &tables.order;
        transaction.scan(&order.table, &KeyRange::all(), Direction::Forward, |found| {
            let gathered = Order {
                number: int4_of_key(found.key, NUMBER_AT),
                customer: order.customer.read(found.body),
                has_carrier: !order.carrier.is_null(found.body),
                line_count: order.line_count.read(found.body),
                ..Order::default()
            };
            self.of_key(found.key).orders.push(gathered);
            ControlFlow::Continue(())
        });
        let line = &tables.order_line;
        // Orders are numbered from 1 without holes, or a condition fails; so this is where one most likely is.
        transaction.scan(&line.table, &KeyRange::all(), Direction::Forward, |found| {
            let number = int4_of_key(found.key, NUMBER_AT);
            let orders = &mut self.of_key(found.key).orders;
            let likely = number as usize - 1;
            let position = match orders.get(likely) {
                Some(order) if order.number == number => Ok(likely),
                _ => orders.binary_search_by_key(&number, |order| order.number),
            };
            // A line without an order is an order of its own, that says it has no lines.
            let position = position.unwrap_or_else(|position| {
                orders.insert(position, Order { number, customer: 1, ..Order::default() });
                position
            });
            let order = &mut orders[position];
            order.lines += 1;
            order.delivered_lines += i32::from(!line.delivery.is_null(found.body));
            order.amount += line.amount.read(found.body);
            ControlFlow::Continue(())
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use saki_mvcc::RowId;
    use saki_report::Common;

    use super::*;
    use crate::engine::Engine;
    use crate::tpcc::load::load;
    use crate::tpcc::schema::{RowKey, district_key, numbered_key, order_line_key, warehouse_key};

    /// A change that no transaction makes, and the conditions that it breaks.
    type Harm = (&'static str, fn(&Tables, &mut Transaction<'_>), &'static [u32]);

    const ORDER: i32 = 1;
    /// The newest order of a small population, which is not delivered.
    const NEW: i32 = 30;

    fn find(transaction: &Transaction<'_>, table: &saki_mvcc::Table, key: RowKey) -> RowId {
        transaction.get(table, key.as_ref()).expect("it was loaded").id
    }

    fn change(transaction: &mut Transaction<'_>, table: &saki_mvcc::Table, key: RowKey, with: impl FnOnce(&mut [u8])) {
        let id = find(transaction, table, key);
        transaction.modify(table, id, with).expect("nobody else is there");
    }

    fn delete(transaction: &mut Transaction<'_>, table: &saki_mvcc::Table, key: RowKey) {
        let id = find(transaction, table, key);
        transaction.delete(table, id).expect("nobody else is there");
    }

    const HARMS: [Harm; 9] = [
        ("nothing", |_, _| {}, &[]),
        (
            "a payment that only the warehouse has",
            |tables, transaction| {
                change(transaction, &tables.warehouse, warehouse_key(1), |body| tables.w_ytd.write(body, 7))
            },
            &[1, 8],
        ),
        (
            "a payment that only the district has",
            |tables, transaction| {
                change(transaction, &tables.district, district_key(1, 3), |body| tables.d_ytd.write(body, 7));
            },
            &[1, 9],
        ),
        (
            "an order number that was skipped",
            |tables, transaction| {
                change(transaction, &tables.district, district_key(1, 3), |body| {
                    tables.d_next_order.write(body, tables.d_next_order.read(body) + 1);
                });
            },
            &[2],
        ),
        (
            "a new order that is gone from the middle",
            |tables, transaction| delete(transaction, &tables.new_order, numbered_key(1, 3, NEW - 1)),
            &[3, 5, 11],
        ),
        (
            "a line that is gone",
            |tables, transaction| delete(transaction, &tables.order_line.table, order_line_key(1, 3, ORDER, 1)),
            &[4, 6],
        ),
        (
            "a line that was delivered alone",
            |tables, transaction| {
                let key = order_line_key(1, 3, NEW, 1);
                change(transaction, &tables.order_line.table, key, |body| tables.order_line.delivery.write(body, 1));
            },
            &[7],
        ),
        (
            "an order with a carrier that is still new",
            |tables, transaction| {
                let key = numbered_key(1, 3, NEW);
                change(transaction, &tables.order.table, key, |body| tables.order.carrier.write(body, 1));
            },
            &[5, 7, 10, 12],
        ),
        (
            "a balance that nobody paid for",
            |tables, transaction| {
                let of = &tables.customer;
                change(transaction, &of.table, numbered_key(1, 3, 5), |body| of.balance.write(body, 1));
            },
            &[10, 12],
        ),
    ];

    #[test]
    fn each_condition_finds_what_breaks_it() {
        let data = std::env::temp_dir().join(format!("saki-oltp-consistency-{}", std::process::id()));
        let common = Common { json: None, plot: None, small: true, seed: 3, data: data.clone() };
        let (database, home) = Engine::of(1).create(&common, "consistency").expect("a database");
        let (tables, scale) = (Tables::of(&database).expect("tables"), Scale::small(1));
        load(&database, &tables, scale, 3).expect("rows");
        let mut runner = database.runner().expect("a runner");
        let mut found = BTreeSet::new();
        for (what, harm, expected) in HARMS {
            let mut transaction = runner.begin(Isolation::Snapshot);
            harm(&tables, &mut transaction);
            let mut report = Report::new("test", &common);
            check_in(&transaction, &tables, scale, 0, what, &mut report);
            let number = |fault: &String| -> u32 {
                let (_, rest) = fault.split_once("condition ").expect("it names the condition");
                rest.split(':').next().and_then(|number| number.parse().ok()).expect("a number")
            };
            let broken: Vec<u32> = report.faults.iter().map(number).collect::<BTreeSet<_>>().into_iter().collect();
            assert_eq!(broken, expected, "{what}: {:?}", report.faults);
            found.extend(broken);
        }
        assert!(found.into_iter().eq(1..=12), "every condition is tried");
        drop((runner, tables, database, home));
        std::fs::remove_dir_all(data).expect("it is empty");
    }
}
