//! `now()` and its like.

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Volatility;
use saki_base::civil::MICROS_PER_DAY;
use saki_base::wall_micros;

use crate::conversion::rounded;
use crate::datum::{Datum, TIME, TIMESTAMP, timestamptz};
use crate::function::{Body, Returns, TimeFunction};
use saki_parameters::SessionTime;

/// Functions of the transaction's beginning, of the statement's, and of the time it is.
pub const FUNCTIONS: &[TimeFunction] = &[
    stable("now", &["transaction_timestamp"], 0, |_, _| Ok(timestamptz()), now),
    stable("current_timestamp", &[], 1, |_, _| Ok(timestamptz()), now),
    stable(
        "statement_timestamp",
        &[],
        0,
        |_, _| Ok(timestamptz()),
        |_, session| Ok(Datum::Timestamptz(session.clock.statement())),
    ),
    TimeFunction {
        volatility: Volatility::Volatile,
        ..TimeFunction::new(
            "clock_timestamp",
            (0, 0),
            |_, _| Ok(timestamptz()),
            |_, _| Ok(Datum::Timestamptz(wall_micros())),
        )
    },
    stable(
        "localtimestamp",
        &[],
        1,
        |_, _| Ok(TIMESTAMP),
        |args, session| Ok(Datum::Timestamp(rounded(local(session), digits(args))?)),
    ),
    stable(
        "current_date",
        &[],
        0,
        |_, _| Ok(DataType::Date32),
        |_, session| Ok(Datum::Date(local(session).div_euclid(MICROS_PER_DAY) as i32)),
    ),
    stable("localtime", &[], 1, |_, _| Ok(TIME), time_of_day),
    stable("current_time", &[], 1, |_, _| Ok(TIME), time_of_day),
];

const fn stable(
    name: &'static str,
    aliases: &'static [&'static str],
    most: usize,
    returns: Returns,
    body: Body,
) -> TimeFunction {
    TimeFunction { aliases, volatility: Volatility::Stable, ..TimeFunction::new(name, (0, most), returns, body) }
}

fn now(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    Ok(Datum::Timestamptz(rounded(session.now(), digits(args))?))
}

fn time_of_day(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    Ok(Datum::Time(rounded(local(session).rem_euclid(MICROS_PER_DAY), digits(args))?))
}

/// What the session's clocks show.
fn local(session: &SessionTime) -> i64 {
    session.style.zone.local(session.now())
}

fn digits(args: &[Datum]) -> i64 {
    args.first().and_then(Datum::integer).unwrap_or(6)
}
