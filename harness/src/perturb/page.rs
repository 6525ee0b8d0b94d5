//! The report as one HTML page. It needs neither a script nor the network.

use std::fmt::Write as _;

use super::call::What;
use super::campaign::{Campaign, Finding};
use super::kind::Kind;
use super::report::{About, counts};
use super::table::{Cell, Row, rows};
use crate::output::{cut, took};
use crate::report_html::{document, escaped};

const STYLE: &str = include_str!("page.css");
/// Maximum number of trials that a finding lists.
const TRIALS: usize = 40;
/// Maximum length of a line, in characters.
const WIDTH: usize = 400;

/// Renders the page.
pub fn html(campaign: &Campaign, about: &About) -> String {
    let title = format!("perturb {}", about.scenario);
    let mut body = format!("<main>\n<h1>{}</h1>\n", escaped(&title));
    body += &head(campaign, about);
    if !campaign.findings.is_empty() {
        body += "<h2>Findings</h2>\n";
    }
    for (at, finding) in campaign.findings.iter().enumerate() {
        body += &section(campaign, at + 1, finding);
    }
    if !campaign.trials.is_empty() {
        body += "<h2>Trials</h2>\n";
        body += &matrix(campaign);
    }
    body += &notes(campaign, about);
    body += "</main>\n";
    document(&title, STYLE, None, &body)
}

fn head(campaign: &Campaign, about: &About) -> String {
    let failing = campaign.failing();
    let (tone, verdict) = match (failing, campaign.findings.len(), campaign.verdicts.len() < campaign.trials.len()) {
        (0, 0, false) => ("good", "nothing found".to_owned()),
        (0, 0, true) => ("warning", "not all trials ran, nothing found".to_owned()),
        (0, known, _) => ("warning", format!("nothing new; {known} known, or seen once and not again")),
        (failing, ..) => ("bad", format!("{failing} found")),
    };
    let mut out = format!("<p class=\"verdict {tone}\">{}</p>\n", escaped(&verdict));
    let wall = match about.wall_ms {
        0 => String::new(),
        wall => format!(", in {}", took(wall)),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<p class=\"facts\">{}{wall}</p>", escaped(&counts(campaign)));
    let _ = writeln!(out, "<p class=\"facts\"><code>{}</code></p>", escaped(&about.command));
    out
}

fn section(campaign: &Campaign, number: usize, finding: &Finding) -> String {
    let (weak, state) = match (finding.known, finding.is_steady()) {
        (true, _) => (" weak", ", known"),
        (false, true) => ("", ""),
        (false, false) => (" weak", ", seen once and not again"),
    };
    let mut out = format!(
        "<section class=\"finding{weak}\" id=\"finding-{number}\">\n<h3>{number}. {}{state}</h3>\n\
         <p class=\"message\">{}</p>\n<ul>\n",
        finding.class.word(),
        escaped(finding.message.trim_end())
    );
    let trials: Vec<String> =
        finding.trials.iter().filter_map(|t| campaign.trials.get(*t)).map(ToString::to_string).collect();
    for trial in trials.iter().take(TRIALS) {
        let _ = writeln!(out, "<li>{}</li>", escaped(trial));
    }
    if trials.len() > TRIALS {
        let _ = writeln!(out, "<li>and {} more</li>", trials.len() - TRIALS);
    }
    out += "</ul>\n";
    if finding.again.runs > 0 {
        let again = finding.again;
        let _ = writeln!(out, "<p class=\"facts\">Alone it came {} of {} times.</p>", again.came, again.runs);
    }
    if let Some(real) = &finding.real {
        let _ = writeln!(out, "<p class=\"facts\">{}</p>", escaped(&real.to_string()));
    }
    if let Some(file) = &finding.file {
        let file = escaped(&file.display().to_string());
        let _ = writeln!(
            out,
            "<p class=\"facts\">Repeated by <code>mooring run --live --allow-exec --backend directory {file}</code></p>"
        );
    }
    if !finding.evidence.difference.is_empty() {
        out += "<h4>Calls from the perturbation on; + in this trial only, − in the unbroken run only</h4>\n<pre>";
        for line in &finding.evidence.difference {
            let class = match line.chars().next() {
                Some('+') => " class=\"plus\"",
                Some('-') => " class=\"minus\"",
                _ => "",
            };
            let _ = write!(out, "<span{class}>{}</span>", escaped(&cut(line, WIDTH)));
        }
        out += "</pre>\n";
    }
    for (program, lines) in finding.evidence.logs.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = write!(out, "<details><summary>Log of {} around it</summary>\n<pre>", escaped(program));
        for line in lines {
            let _ = write!(out, "<span>{}</span>", escaped(&cut(line, WIDTH)));
        }
        out += "</pre></details>\n";
    }
    out + "</section>\n"
}

fn matrix(campaign: &Campaign) -> String {
    let kinds: Vec<Kind> = campaign.kinds().into_keys().collect();
    let mut out = "<div class=\"wide\"><table class=\"matrix\">\n<thead><tr><td></td>".to_owned();
    for kind in &kinds {
        let _ = write!(out, "<th scope=\"col\" title=\"{}\"><span>{}</span></th>", escaped(kind.about()), kind.word());
    }
    out += "</tr></thead>\n<tbody>\n";
    let mut group = None;
    for Row { call, trials } in rows(campaign) {
        if group != Some(call.key.what) {
            group = Some(call.key.what);
            let columns = kinds.len() + 1;
            let _ = writeln!(
                out,
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{columns}\">{}</th></tr>",
                group_name(call.key.what)
            );
        }
        let name = escaped(&call.to_string());
        let _ = write!(out, "<tr><th scope=\"row\"><code>{name}</code></th>");
        for kind in &kinds {
            out += &trials.get(kind).map_or_else(|| "<td></td>".to_owned(), |trial| cell(campaign, *trial));
        }
        out += "</tr>\n";
    }
    out += "</tbody>\n</table></div>\n<p class=\"legend\">";
    for cell in Cell::LEGEND {
        let _ = write!(out, "<span>{} {}</span>", cell.0, cell.1);
    }
    out += "</p>\n<h2>Perturbations</h2>\n<dl>\n";
    for kind in &kinds {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", kind.word(), escaped(kind.about()));
    }
    out + "</dl>\n"
}

fn cell(campaign: &Campaign, trial: usize) -> String {
    let wall = campaign.walls.get(&trial).map_or_else(String::new, |ms| format!(" in {}", took(*ms)));
    let title = campaign.trials.get(trial).map_or_else(String::new, ToString::to_string);
    let title = escaped(&format!("{title}{wall}"));
    match Cell::of(campaign, trial) {
        Cell::Finding(number) => {
            format!("<td class=\"found\" title=\"{title}\"><a href=\"#finding-{number}\">{number}</a></td>")
        }
        cell @ Cell::OnceOnly => format!("<td class=\"weak\" title=\"{title}\">{cell}</td>"),
        cell => format!("<td title=\"{title}\">{cell}</td>"),
    }
}

fn group_name(what: What) -> &'static str {
    match what {
        What::Write => "Writes at the API server",
        What::CloudWrite => "Calls that change the cloud",
        What::CloudRead => "Looks at the cloud",
        What::Csi => "Calls of the driver",
        What::Served => "Calls that the driver serves",
        What::Event => "Events of watches",
        What::Read => "Reads at the API server",
    }
}

fn notes(campaign: &Campaign, about: &About) -> String {
    let mut lines: Vec<String> =
        campaign.declared().into_iter().map(|(id, count)| format!("Declared deviation {id}: {count} trials")).collect();
    let varying = campaign.calls.varying.iter();
    lines.extend(varying.map(|(key, (least, most))| {
        format!("{key}: {least} to {most} times in unbroken runs, perturbed as often as all have it")
    }));
    if about.varying_values > 0 {
        lines.push(format!("{} values at the end of unbroken runs vary, and are not compared", about.varying_values));
    }
    lines.extend(about.notes.iter().cloned());
    lines.extend(about.missing.iter().map(|signature| format!("A known finding did not come: {signature}")));
    if lines.is_empty() {
        return String::new();
    }
    let items: Vec<String> = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    format!("<h2>Notes</h2>\n<ul class=\"plain facts\">\n{}</ul>\n", items.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perturb::campaign::{Again, tests::campaign};

    #[test]
    fn the_page_shows_findings_evidence_and_the_matrix() {
        let mut campaign = campaign();
        campaign.findings[1].again = Again { runs: 5, came: 4 };
        let about = About {
            scenario: "s".to_owned(),
            command: "mooring perturb -- ./mine".to_owned(),
            notes: vec!["a note".to_owned()],
            ..About::default()
        };
        let page = html(&campaign, &about);
        for part in [
            "<p class=\"verdict bad\">2 found</p>",
            "<section class=\"finding\" id=\"finding-1\">\n<h3>1. violated</h3>",
            "<p class=\"message\">I2: a &lt;mount&gt;, as was seen</p>",
            "<li>crash-after at mine patch pvs b-* #2</li>",
            "Alone it came 4 of 5 times.",
            "<span class=\"plus\">+ mine: create</span>",
            "<summary>Log of mine around it</summary>\n<pre><span>it said</span>",
            "<th scope=\"rowgroup\" colspan=\"3\">Writes at the API server</th>",
            "<tr><th scope=\"row\"><code>mine patch pvs b-* #2</code></th><td class=\"found\" title=\"crash-after at mine \
             patch pvs b-* #2\"><a href=\"#finding-1\">1</a></td><td title=\"lost-reply at mine patch pvs b-* #2\">?</td>",
            "<li>Declared deviation known-of-upstream: 1 trials</li>",
            "<li>a note</li>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        campaign.findings[0].again = Again { runs: 5, came: 0 };
        campaign.findings[1].known = true;
        let page = html(&campaign, &about);
        assert!(page.contains("nothing new; 2 known") && page.contains("<td class=\"weak\""), "{page}");
    }

    #[test]
    fn program_output_is_escaped_and_the_page_loads_nothing() {
        const EVIL: &str = "</pre><script>alert(1)</script><img src=x onerror=\"alert(1)\">";
        let mut campaign = campaign();
        campaign.findings[0].message = EVIL.to_owned();
        campaign.findings[0].evidence.difference = vec![format!("+ {EVIL}")];
        campaign.findings[0].evidence.logs.insert(EVIL.to_owned(), vec![EVIL.to_owned()]);
        let evil = || EVIL.to_owned();
        let about = About { scenario: evil(), command: evil(), notes: vec![evil()], ..About::default() };
        let page = html(&campaign, &about);
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(page.contains("script-src 'none'") && page.contains("default-src 'none'"));
        for loads in ["http:", "https:", "url(", "@import"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }
}
