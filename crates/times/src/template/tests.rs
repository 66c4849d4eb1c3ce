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
        ("  2000 +JUN", "YYYY/MON", "2000-06-01"),
        ("2000  +JUN", "YYYY//MON", "2000-06-01"),
        ("2000 + + JUN", "YYYY   MON", "2000-06-01"),
        ("1,582nd VIII 21", "Y,YYYth FMRM DD", "1582-08-21"),
        ("\"a b\" 98 2 3", "\"\\\"a b\\\"\" YY MM DD", "1998-02-03"),
        ("19971", "YYYYMMDD", "22007"),
        ("1997-11-Jan-16", "YYYY-MM-Mon-DD", "22007"),
        ("1997-11-Nov-16", "YYYY-MM-Mon-DD", "1997-11-16"),
        ("99999999999", "IYYY", "22008"),
        ("2024-2147483647", "IYYY-IW", "22008"),
    ] {
        assert_eq!(date(text, template), expected, "{text} {template}");
    }
}

/// As PostgreSQL 15 reads them.
#[test]
fn seconds_and_zones_are_read() {
    let session = SessionTime::default();
    let clocks = |text: &str, template: &str| match timestamp(text, template, &session) {
        Ok(micros) => {
            let mut out = String::new();
            session.style.write_timestamp(micros, &mut out).unwrap();
            out
        }
        Err(error) => SqlError::from(error).sqlstate().to_owned(),
    };
    for (text, template, expected) in [
        ("2018-11-02 12:34:56.12345", "YYYY-MM-DD HH24:MI:SS.FF3", "2018-11-02 12:34:56.123"),
        ("2018-11-02 12:34:56.12345", "YYYY-MM-DD HH24:MI:SS.FF4", "2018-11-02 12:34:56.1235"),
        ("2018-11-02 12:34:56.123456", "YYYY-MM-DD HH24:MI:SS.FF6", "2018-11-02 12:34:56.123456"),
        ("2018-11-02 12:34:56.123456789", "YYYY-MM-DD HH24:MI:SS.FF6", "22008"),
        ("2011-12-18 11:38 20", "YYYY-MM-DD HH12:MI TZM", "2011-12-18 11:18:00"),
        ("2011-12-18 11:38 -05:20", "YYYY-MM-DD HH12:MI TZH:TZM", "2011-12-18 16:58:00"),
        ("2015-02-11 86399", "YYYY-MM-DD SSSS", "2015-02-11 23:59:59"),
        ("2015-02-11 86400", "YYYY-MM-DD SSSSS", "22008"),
    ] {
        assert_eq!(clocks(text, template), expected, "{text} {template}");
    }
}
