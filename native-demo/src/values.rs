//! Parsers of the values of flags, with messages in the terms of the command line.

use wisp_engine::{
    device,
    pipelines::config::{ConfigError, Field},
};

/// Returns a parser of whole numbers in a range.
pub fn whole(min: u32, max: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok();
        let number = number.filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("must be a whole number from {min} to {max}"))
    }
}

/// Parses a number. Its range is checked with those of the other parameters.
pub fn number(text: &str) -> Result<f32, String> {
    let number = text.trim().parse();
    number.map_err(|_| "must be a number, such as 0.7".into())
}

/// Checks a value of a field of the engine's configuration.
pub fn of_field(field: &'static Field, text: &str) -> Result<String, String> {
    match field.parse(text) {
        Ok(_) => Ok(text.into()),
        Err(error) if field.name == "device_specs" => {
            let devices = device::list_blocking();
            let devices = devices.iter().map(|(spec, _)| spec.to_string());
            let devices: Vec<String> = devices.collect();
            let problem = problem(error);
            let problem = problem.trim_end_matches('.');
            Err(format!(
                "{problem}; this machine has {}",
                devices.join(", ")
            ))
        }
        Err(error) => Err(problem(error)),
    }
}

/// Returns what is wrong with a value, without the name of the field and the value, which the message about the
/// flag has already.
fn problem(error: ConfigError) -> String {
    let ConfigError::Value { problem, .. } = error else {
        return error.to_string();
    };
    match problem.rfind("must be ") {
        Some(at) => problem[at..].into(),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use wisp_engine::pipelines::config::FIELDS;

    use super::*;

    #[test]
    fn problems_of_values_name_no_field() {
        let problem = |name, text| {
            let field = FIELDS.iter().find(|field| field.name == name);
            of_field(field.unwrap(), text).unwrap_err()
        };
        assert_eq!(
            problem("kv_cache_page_size", "0"),
            "must be a whole number from 1 to 65536"
        );
        assert!(problem("cache_strategy", "x").starts_with("unknown cache strategy"));
        assert!(problem("device_specs", "x").ends_with("host"));
        for field in FIELDS {
            let Err(problem) = of_field(field, "must be \u{1b}x") else {
                continue;
            };
            assert!(
                !problem.contains(field.name) || !field.name.contains('_'),
                "{problem}"
            );
        }
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert_eq!(whole(1, 5)("5"), Ok(5));
        for text in ["0", "6", "-1", "x", "", "1.5", "99999999999"] {
            assert_eq!(
                whole(1, 5)(text),
                Err("must be a whole number from 1 to 5".into())
            );
        }
        assert!(number("x").is_err() && number("").is_err());
    }
}
