use saki_base::civil::civil_from_days;

use super::*;

/// As PostgreSQL 15 reads them.
#[test]
fn weeks_and_exact_templates_are_read() {
    let date = |text: &str, template: &str| match read(text, template).and_then(|said| said.days(text)) {
        Ok(days) => {
            let date = civil_from_days(days);
            format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
        }
        Err(error) => SqlError::from(error).sqlstate().to_owned(),
    };
    for (text, template, expected) in [
        ("2005-01-3", "IYYY-IW-ID", "2005-01-05"),
        ("20060115", "IYYYIWID", "2006-01-08"),
        ("2006-15-Wed", "IYYY-IW-Dy", "2006-04-12"),
        ("2006 200", "IYYY IDDD", "2006-07-20"),
        ("06 15", "IY IW", "2006-04-10"),
        ("2024-W10-7", "IYYY-\"W\"IW-ID", "2024-03-10"),
        ("2005 1", "IYYY ID", "2005-01-01"),
        ("2024-10", "YYYY-WW", "2024-03-04"),
        ("2024-03-2", "YYYY-MM-W", "2024-03-08"),
        ("21 05", "CC YY", "2005-01-01"),
        ("20", "CC", "1901-01-01"),
        ("2024-IX-05", "YYYY-RM-DD", "2024-09-05"),
        ("2024-10", "YYYY-IW", "22007"),
        ("5", "IDDD", "22007"),
        ("7", "DDD", "22007"),
        ("2024  01", "FXYYYY MM", "2024-01-01"),
        ("2000    JUN", "FXYYYY MON", "22007"),
        (" 2000 JUN", "FXYYYY MON", "2000-06-01"),
        ("2000/06/01", "FXYYYY-MM-DD", "2000-06-01"),
        ("  2000-06", "YYYY-MM", "2000-06-01"),
        ("2024-01-01 EST", "YYYY-MM-DD TZ", "0A000"),
        ("99999999999", "IYYY", "22008"),
        ("2024-2147483647", "IYYY-IW", "22008"),
    ] {
        assert_eq!(date(text, template), expected, "{text} {template}");
    }
}
