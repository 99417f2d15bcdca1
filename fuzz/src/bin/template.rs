//! A command with holes: whatever it and the values hold, a value is never split, and a word without holes stays as it is.
#![no_main]

use trimtab::advanced::study::{Fill, Metric, NamedPoint, Setting, Template};
use trimtab_fuzz::parts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [text, value] = parts(data);
    let (text, value) = (String::from_utf8_lossy(text), String::from_utf8_lossy(value).into_owned());
    let point = NamedPoint(vec![("a".to_string(), Setting::Text(value.clone()))]);
    if let Ok(template) = Template::parse(&text) {
        let words = template.fill(&point, Fill::default());
        let without = template
            .fill(&NamedPoint(vec![("a".to_string(), Setting::Text("x".to_string()))]), Fill::default());
        // Only an empty value leaves words out.
        assert!(value.is_empty() || words.len() == without.len() || value == "false");
    }
    if let Ok(template) = Template::for_shell(&text) {
        let words = template.fill(&point, Fill::default());
        assert_eq!(
            words,
            template.fill(&NamedPoint(Vec::new()), Fill::default()),
            "no value is part of a shell's text"
        );
    }
    let _ = Metric::parse(&text);
});
