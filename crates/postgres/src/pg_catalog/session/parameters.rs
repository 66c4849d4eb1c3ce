//! PostgreSQL's settings that clients ask for, with the values that hold here unless a session states others.

/// A setting.
#[derive(Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub value: &'static str,
    pub unit: Option<&'static str>,
    /// `bool`, `enum`, `integer`, `real` or `string`.
    pub kind: &'static str,
    pub category: &'static str,
    /// `internal`: no session changes it; `user`: any may.
    pub context: &'static str,
    pub description: &'static str,
}

/// The version whose system relations and functions these are.
pub const SERVER_VERSION: &str = "15.0";
pub const SERVER_VERSION_NUM: &str = "150000";

const CONNECTION: &str = "Client Connection Defaults";
const LOCALE: &str = "Client Connection Defaults / Locale and Formatting";
const PRESET: &str = "Preset Options";
const COMPATIBILITY: &str = "Version and Platform Compatibility";

const fn internal(name: &'static str, value: &'static str, kind: &'static str, text: &'static str) -> Parameter {
    Parameter { name, value, unit: None, kind, category: PRESET, context: "internal", description: text }
}

const fn user(
    name: &'static str,
    value: &'static str,
    kind: &'static str,
    category: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, value, unit: None, kind, category, context: "user", description }
}

const fn milliseconds(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        value: "0",
        unit: Some("ms"),
        kind: "integer",
        category: "Client Connection Defaults / Statement Behavior",
        context: "user",
        description,
    }
}

/// All of them, by name.
pub static ALL: &[Parameter] = &[
    user("application_name", "", "string", "Reporting and Logging", "Name of the application that connects."),
    user("backslash_quote", "safe_encoding", "enum", COMPATIBILITY, "Whether \\' is allowed in string literals."),
    internal("block_size", "8192", "integer", "Size of a disk block."),
    user("bytea_output", "hex", "enum", CONNECTION, "Output format for bytea."),
    user("client_encoding", "UTF8", "string", LOCALE, "The client's character set encoding."),
    user("client_min_messages", "notice", "enum", CONNECTION, "Message levels that are sent to the client."),
    user("DateStyle", "ISO, MDY", "string", LOCALE, "Display format for date and time values."),
    user("default_table_access_method", "heap", "string", CONNECTION, "Default access method of tables."),
    user("default_tablespace", "", "string", CONNECTION, "Default tablespace to create tables and indexes in."),
    user("default_transaction_deferrable", "off", "bool", CONNECTION, "Default deferrable status of transactions."),
    user("default_transaction_isolation", "read committed", "enum", CONNECTION, "Isolation of new transactions."),
    user("default_transaction_read_only", "off", "bool", CONNECTION, "Default read-only status of transactions."),
    user("escape_string_warning", "on", "bool", COMPATIBILITY, "Warn about backslash escapes in string literals."),
    user("extra_float_digits", "1", "integer", LOCALE, "Digits displayed for floating-point values."),
    milliseconds("idle_in_transaction_session_timeout", "Longest idle time within a transaction."),
    internal("in_hot_standby", "off", "bool", "Whether hot standby is active."),
    internal("integer_datetimes", "on", "bool", "Whether date and time values are integers."),
    user("IntervalStyle", "postgres", "enum", LOCALE, "Display format for interval values."),
    internal("is_superuser", "on", "bool", "Whether the current user is a superuser."),
    internal("lc_collate", "C", "string", "The collation order locale."),
    internal("lc_ctype", "C", "string", "The character classification locale."),
    user("lc_messages", "C", "string", LOCALE, "Language in which messages are displayed."),
    user("lc_monetary", "C", "string", LOCALE, "Locale for monetary amounts."),
    user("lc_numeric", "C", "string", LOCALE, "Locale for numbers."),
    user("lc_time", "C", "string", LOCALE, "Locale for dates and times."),
    milliseconds("lock_timeout", "Longest wait for a lock."),
    internal("max_connections", "100", "integer", "The most concurrent connections."),
    internal("max_identifier_length", "63", "integer", "The longest identifier."),
    internal("max_index_keys", "32", "integer", "The most index keys."),
    user("search_path", "\"$user\", public", "string", CONNECTION, "Schemas of names that state none."),
    internal("server_encoding", "UTF8", "string", "The server's character set encoding."),
    internal("server_version", SERVER_VERSION, "string", "The server's version."),
    internal("server_version_num", SERVER_VERSION_NUM, "integer", "The server's version as a number."),
    user("standard_conforming_strings", "on", "bool", COMPATIBILITY, "Backslashes are literal in string literals."),
    milliseconds("statement_timeout", "Longest time of a statement."),
    user("synchronous_commit", "on", "enum", "Write-Ahead Log", "The current transaction's synchronization level."),
    user("TimeZone", "UTC", "string", LOCALE, "Time zone for displaying and interpreting time stamps."),
    user("transaction_deferrable", "off", "bool", CONNECTION, "Whether the transaction is deferrable."),
    user("transaction_isolation", "read committed", "enum", CONNECTION, "The current transaction's isolation level."),
    user("transaction_read_only", "off", "bool", CONNECTION, "Whether the transaction is read only."),
    user("xmlbinary", "base64", "enum", CONNECTION, "How binary values are encoded in XML."),
];

pub fn find(name: &str) -> Option<&'static Parameter> {
    ALL.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_whatever_their_case() {
        assert_eq!(find("TIMEZONE").map(|parameter| parameter.name), Some("TimeZone"));
        assert_eq!(find("time zone").map(|parameter| parameter.name), None);
    }

    #[test]
    fn settings_stand_by_name_and_once() {
        let names: Vec<String> = ALL.iter().map(|parameter| parameter.name.to_lowercase()).collect();
        assert!(names.is_sorted_by(|before, after| before < after), "{names:?}");
    }

    #[test]
    fn values_are_of_their_kinds() {
        for Parameter { name, value, kind, unit, context, .. } in ALL {
            match *kind {
                "bool" => assert!(["on", "off"].contains(value), "{name}"),
                "integer" => assert!(value.parse::<i64>().is_ok(), "{name}"),
                other => assert!(["enum", "string"].contains(&other), "{name}"),
            }
            assert!(unit.is_none() || *kind == "integer", "{name}");
            assert!(["internal", "user"].contains(context), "{name}");
        }
    }

    #[test]
    fn versions_agree() {
        let (major, minor) = SERVER_VERSION.split_once('.').unwrap();
        let number = major.parse::<u32>().unwrap() * 10_000 + minor.parse::<u32>().unwrap();
        assert_eq!(number.to_string(), SERVER_VERSION_NUM);
    }
}
