//! Rules about operators of the planner's own, which need to know nothing of ours.

mod float_keys;
mod push_filters;
mod series;
mod tops;

pub use self::float_keys::FLOAT_KEYS;
pub use self::push_filters::PushFilters;
pub use self::series::SERIES_IN_ORDER;
pub use self::tops::MODEST_TOPS;
