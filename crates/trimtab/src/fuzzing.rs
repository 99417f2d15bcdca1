//! What fuzz targets need of this crate's inside; nobody else does.

use crate::environment::Environment;
use crate::error::Error;

/// What an environment with these variables asks for, as text.
pub fn environment(lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Error> {
    Environment::from(lookup).map(|environment| format!("{environment:?}"))
}
