//! What expressions mean, and what is refused.

use super::*;

fn parse(text: &str) -> Result<Expression, ExpressionError> {
    Expression::parse(text, &["a".to_string(), "b".to_string()], &[("fixed".to_string(), 5.0)])
}

#[test]
fn expressions_mean_what_they_mean_in_python() {
    // a = 6, b = 4.
    for (text, expected) in [
        ("a * b == 24 and a > b", true),
        ("not a > b", false),
        ("not not a > b", true),
        ("a == 0 or b == 4", true),
        ("a or 1 / 0", true),
        ("4 <= b < a <= 6", true),
        ("4 < b < a", false),
        ("a / b == 1.5", true),
        ("a // b == 1 and a % b == 2", true),
        ("-a // b == -2 and -a % b == 2", true),
        ("-a ** 2 == -36 and 2 ** 3 ** 2 == 512", true),
        ("a + b * 2 == 14 and (a + b) * 2 == 20", true),
        ("a - b - 1 == 1", true),
        ("a in (2, 4, 6) and b not in [1, 2]", true),
        ("a in ()", false),
        ("min(a, b, 9) == 4 and max(a, b) == 6", true),
        ("fixed == 5 and True", true),
        ("32 % ((a * b) / 3) == 0", true),
        ("1 / 0 == 1 / 0 or 0 / 0", true),
        ("0 / 0", false),
        ("a != 6", false),
    ] {
        assert_eq!(parse(text).unwrap().holds(&[6, 4]), expected, "{text}");
    }
}

#[test]
fn nonsense_is_refused_with_the_place() {
    for (text, part) in [
        ("", "byte 0"),
        ("a +", "byte 3"),
        ("a b", "something follows"),
        ("c == 1", "`c` is no axis"),
        ("(a", "`)` expected"),
        ("a in 3", "a list"),
        ("a in (3", "`,` or `)` expected"),
        ("min()", "of nothing"),
        ("1.2.3", "not a number"),
        ("a == 'x", "the text has no end"),
        ("a == 'x'", "it takes numbers only"),
        ("'x'", "neither true nor false"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
    assert!(parse(&deep).unwrap_err().to_string().contains("nested deeper"));
    assert!(parse(&format!("{}a", "-".repeat(100_000))).is_err());
}

#[test]
fn texts_are_compared_with_those_an_axis_takes() {
    let axes = ["n".to_string(), "cc".to_string(), "ld".to_string()];
    let names = vec!["gcc".to_string(), "clang".to_string()];
    let texts = [vec![], names.clone(), names];
    let parse = |text: &str| Expression::parse_with_texts(text, &axes, &[], &texts);
    for (text, expected) in [
        ("cc == 'clang'", true),
        ("\"gcc\" == cc", false),
        ("cc != 'gcc' and n > 2", true),
        ("cc in ('gcc', 'clang')", true),
        ("cc not in ['gcc']", true),
        ("cc == ld", false),
    ] {
        assert_eq!(parse(text).unwrap().holds_for(&[3.0, 1.0, 0.0]), expected, "{text}");
    }
    for (text, part) in [
        ("cc == 'icc'", "`cc` never is 'icc'; it takes gcc, clang"),
        ("cc < 'gcc'", "no order"),
        ("cc == 1", "only be compared with a text"),
        ("cc + 1 == 2", "cannot be computed with"),
        ("cc", "neither true nor false"),
        ("n == cc", "only be compared with a text"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(parse("n > 1 and cc == 'gcc' or n in (1, n)").unwrap().axes(), [0, 1]);
}

#[test]
fn a_constraint_of_any_length_is_read_or_refused_and_never_overflows_the_stack() {
    for sign in [" + ", " - ", " * ", " and ", " or ", " == ", " < ", " % "] {
        let row = |terms: usize| vec!["a"; terms].join(sign);
        let error = parse(&row(200_000)).unwrap_err().to_string();
        assert!(error.contains("more than 4096 terms") && error.contains("several constraints"), "{error}");
        assert!(error.len() < 500, "the text is not quoted whole: {} bytes", error.len());
        let longest = parse(&row(MAX_TERMS as usize)).unwrap();
        assert_eq!(longest.terms(), MAX_TERMS);
        // Evaluated, compared, copied and dropped.
        assert_eq!(longest.clone(), longest);
        longest.holds(&[1, 1]);
    }
    for nested in ["min(", "max(", "not ", "-", "(", "a in (", "a ** "] {
        let deep = nested.repeat(200_000) + "a";
        assert!(parse(&deep).unwrap_err().to_string().contains("nested deeper"), "{nested}");
    }
    let listed = |items: usize, item: &str| format!("({})", vec![item; items].join(", "));
    for wide in ["min", "max", "a in "] {
        let error = parse(&format!("{wide}{}", listed(200_000, "b"))).unwrap_err().to_string();
        assert!(error.contains("more than 4096 terms"), "{error}");
    }
    // Lists of numbers are looked up, not walked.
    assert!(parse(&format!("a in {}", listed(200_000, "6"))).unwrap().holds(&[6, 4]));
    let error = parse(&" ".repeat(MAX_CONSTRAINT_BYTES + 1)).unwrap_err().to_string();
    assert!(error.contains("at most 16777216 are read"), "{error}");
}
