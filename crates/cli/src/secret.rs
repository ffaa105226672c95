//! The deployment's secret: from the environment or a file, never from the command line, where
//! every user of the machine could read it.

use std::{env, ffi::OsString, fs, path::Path};

use onceward::Secret;

use crate::exit::Failure;

/// The variable that holds the secret.
const VARIABLE: &str = "ONCEWARD_SECRET";

/// The variable that names a file with the secret.
const FILE_VARIABLE: &str = "ONCEWARD_SECRET_FILE";

const HINT: &str = "a secret is 64 hex digits: give the one that the service runs with, or unset \
                    the variable if the store keeps its own";

/// Returns the secret that was given, if one was.
pub(crate) fn given() -> Result<Option<Secret>, Failure> {
    choose(env::var_os(VARIABLE), env::var_os(FILE_VARIABLE))
}

/// Returns the secret in `text`, or in the file named `file`; both at once is one too many.
fn choose(text: Option<OsString>, file: Option<OsString>) -> Result<Option<Secret>, Failure> {
    match (text, file) {
        (None, None) => Ok(None),
        (Some(text), None) => parse(text.to_str().unwrap_or_default(), VARIABLE).map(Some),
        (None, Some(file)) => read(Path::new(&file)).map(Some),
        (Some(_), Some(_)) => Err(Failure::new(
            format!("{VARIABLE} and {FILE_VARIABLE} are both set"),
            "unset one of them",
        )),
    }
}

fn read(file: &Path) -> Result<Secret, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::new(
            format!("the secret in {} cannot be read: {error}", file.display()),
            format!("let {FILE_VARIABLE} name a file with 64 hex digits that this user may read"),
        )
    })?;
    parse(&text, &file.display().to_string())
}

/// Returns the secret that `text` is. What it says instead stays untold: it may be almost one.
fn parse(text: &str, place: &str) -> Result<Secret, Failure> {
    Secret::parse(text).map_err(|_| Failure::new(format!("{place} does not hold a secret"), HINT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn check_value(secret: Option<Secret>) -> Option<[u8; 32]> {
        secret.map(|secret| secret.check_value())
    }

    #[test]
    fn secret_comes_from_the_variable_or_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, format!("{SECRET}\n")).unwrap();

        let wanted = Some(Secret::parse(SECRET).unwrap().check_value());
        let by_text = choose(Some(SECRET.into()), None).unwrap();
        let by_file = choose(None, Some(file.into())).unwrap();
        assert_eq!(check_value(by_text), wanted);
        assert_eq!(check_value(by_file), wanted);
        assert!(choose(None, None).unwrap().is_none());
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        let almost = &SECRET[..63];
        for text in ["", almost] {
            let failure = format!("{:?}", choose(Some(text.into()), None).unwrap_err());
            assert!(failure.contains(VARIABLE), "{failure}");
            assert!(!failure.contains(almost), "{failure}");
        }
        assert!(choose(None, Some("/nowhere/secret".into())).is_err());
    }

    #[test]
    fn two_secrets_are_one_too_many() {
        assert!(choose(Some(SECRET.into()), Some("file".into())).is_err());
    }
}
