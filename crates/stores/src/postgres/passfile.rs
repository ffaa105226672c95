//! Password files, as libpq reads them: `host:port:database:user:password` on every line.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Returns the password that `PGPASSFILE`, or else `~/.pgpass`, has for this connection.
///
/// Of several hosts each has to have the same: the driver would show it to all of them.
pub(super) fn password(config: &Config) -> Option<String> {
    let named = env::var_os("PGPASSFILE").filter(|path| !path.is_empty());
    let usual = || env::var_os("HOME").map(|home| Path::new(&home).join(".pgpass"));
    let text = read(&named.map(PathBuf::from).or_else(usual)?)?;
    let user = config.get_user().unwrap_or("");
    let database = config.get_dbname().unwrap_or(user);
    let ports = config.get_ports();
    let mut found = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let host = match host {
            Host::Tcp(name) => Cow::from(name),
            #[cfg(unix)]
            Host::Unix(path) => path.to_string_lossy(),
        };
        let port = ports.get(at).or(ports.first()).unwrap_or(&5432).to_string();
        find(&text, [&host, &port, database, user])
    });
    let first = found.next()??;
    found.all(|it| it.as_ref() == Some(&first)).then_some(first)
}

/// Reads the file, unless others may read it too.
fn read(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    #[cfg(unix)]
    let is_open = std::os::unix::fs::MetadataExt::mode(&about) & 0o077 != 0;
    #[cfg(not(unix))]
    let is_open = false;
    if is_open {
        let path = path.display();
        tracing::warn!(%path, "a password file that others may read is not used: chmod 600");
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Returns the password of the first line for this host, port, database and user.
fn find(text: &str, wanted: [&str; 4]) -> Option<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut split = lines.filter_map(fields);
    let is_for = |(field, wanted): (&str, &str)| field == "*" || plain(field) == wanted;
    let (_, password) = split.find(|(who, _)| who.iter().copied().zip(wanted).all(is_for))?;
    Some(plain(password)).filter(|password| !password.is_empty())
}

/// Splits a line at its first four colons that no backslash stands before.
fn fields(line: &str) -> Option<([&str; 4], &str)> {
    let mut escaped = false;
    let mut colons = line.match_indices(|it| {
        let is_colon = it == ':' && !escaped;
        escaped = it == '\\' && !escaped;
        is_colon
    });
    let [a, b, c, d] = [(); 4].map(|()| colons.next().map(|(at, _)| at));
    let (a, b, c, d) = (a?, b?, c?, d?);
    let field = |from: usize, to: usize| &line[from + 1..to];
    Some((
        [&line[..a], field(a, b), field(b, c), field(c, d)],
        &line[d + 1..],
    ))
}

/// Takes away the backslashes that stand before what is meant.
fn plain(field: &str) -> String {
    let mut chars = field.chars();
    let next = || match chars.next()? {
        '\\' => chars.next(),
        it => Some(it),
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: [&str; 4] = ["db", "5432", "shop", "app"];

    #[test]
    fn the_first_line_that_fits_counts() {
        let text = "# db:5432:shop:app:comment\r\n\
                    db2:5432:shop:app:other\r\n\
                    nonsense\n\
                    db:*:shop:app:first\r\n\
                    *:*:*:*:last";
        assert_eq!(find(text, APP).as_deref(), Some("first"));
        let elsewhere = ["db", "5432", "shop", "root"];
        assert_eq!(find(text, elsewhere).as_deref(), Some("last"));
        assert_eq!(find("db:5433:shop:app:x", APP), None);
        assert_eq!(find("db:5432:shop:app:", APP), None);
    }

    #[test]
    fn a_backslash_makes_a_colon_part_of_a_field() {
        let wanted = ["::1", "5432", "a\\b", "*"];
        let text = r"\:\:1:5432:a\\b:\*:p\:q\\:r";
        assert_eq!(find(text, wanted).as_deref(), Some(r"p:q\:r"));
        let anybody = ["::1", "5432", "a\\b", "app"];
        assert_eq!(find(text, anybody), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;

        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "text").unwrap();
        for (mode, is_read) in [(0o600, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(file.path()).is_some(), is_read, "{mode:o}");
        }
    }
}
