//! Pages of a list, in the order of ids.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::Ec2Error;

/// Request for a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Largest number of items.
    pub max_results: Option<u64>,
    /// End of the previous page.
    pub next_token: Option<String>,
}

/// Largest page of any list.
const MOST: u64 = 1_000;
/// Smallest page of most lists.
pub const LEAST: u64 = 5;

/// Validated limits of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    limit: Option<usize>,
    after: Option<String>,
    /// Seeded bug: the page begins with the last item of the page before.
    repeats: bool,
}

impl PageRequest {
    /// Checks the request. `ids` is the id parameter, as EC2 spells it in texts, if ids were given.
    ///
    /// # Errors
    /// `InvalidParameterValue`, `InvalidParameterCombination` or `InvalidNextToken`.
    pub fn check(&self, ids: Option<&str>) -> Result<Page, Ec2Error> {
        self.check_range(ids, LEAST, MOST)
    }

    /// Checks the request for a list whose pages have at most `most` items.
    ///
    /// # Errors
    /// As [`PageRequest::check`].
    pub fn check_most(&self, ids: Option<&str>, most: u64) -> Result<Page, Ec2Error> {
        self.check_range(ids, LEAST, most)
    }

    /// Checks the request for a list whose pages have at least `least` items.
    ///
    /// # Errors
    /// As [`PageRequest::check`].
    pub fn check_least(&self, ids: Option<&str>, least: u64) -> Result<Page, Ec2Error> {
        self.check_range(ids, least, MOST)
    }

    fn check_range(&self, ids: Option<&str>, least: u64, most: u64) -> Result<Page, Ec2Error> {
        if let (Some(ids), Some(_)) = (ids, self.max_results) {
            let text = format!("The parameter {ids} cannot be used with the parameter maxResults");
            return Err(Ec2Error::InvalidParameterCombination(text));
        }
        // 0 means "no limit": some SDKs send it for an unset value.
        let limit = self.max_results.filter(|n| *n != 0);
        if let Some(n) = limit.filter(|n| *n < least) {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Value ( {n} ) for parameter maxResults is invalid. Expecting a value greater than or equal to {least}."
            )));
        }
        let after = self.next_token.as_deref().filter(|t| !t.is_empty()).map(decode).transpose()?;
        Ok(Page { limit: limit.map(|n| n.min(most) as usize), after, repeats: false })
    }
}

impl Page {
    /// Returns the id after which the page begins.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// Switches on the seeded bug of this type.
    pub(super) fn repeating(self, repeats: bool) -> Self {
        Self { repeats, ..self }
    }

    /// Takes this page from `items`, which are ordered by `id`. Returns its end, unless it is the last page.
    pub fn cut<T>(&self, items: impl Iterator<Item = T>, id: impl Fn(&T) -> &str) -> (Vec<T>, Option<String>) {
        let is_before = |id: &str, after: &str| id < after || id == after && !self.repeats;
        let mut items = items.skip_while(|item| self.after.as_deref().is_some_and(|after| is_before(id(item), after)));
        let Some(limit) = self.limit else {
            return (items.collect(), None);
        };
        let page: Vec<T> = items.by_ref().take(limit).collect();
        let more = items.next().is_some();
        let token = page.last().filter(|_| more).map(|last| URL_SAFE_NO_PAD.encode(format!("after:{}", id(last))));
        (page, token)
    }
}

fn decode(token: &str) -> Result<String, Ec2Error> {
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| Ec2Error::InvalidNextToken)?;
    let text = String::from_utf8(bytes).map_err(|_| Ec2Error::InvalidNextToken)?;
    text.strip_prefix("after:").map(str::to_owned).ok_or(Ec2Error::InvalidNextToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_the_list_once_and_the_last_has_no_token() {
        let items: Vec<String> = (10..30).map(|n| n.to_string()).collect();
        let (mut request, mut seen) = (PageRequest { max_results: Some(7), next_token: None }, Vec::new());
        loop {
            let (page, token) = request.check(None).unwrap().cut(items.iter(), |i| i.as_str());
            seen.extend(page.into_iter().cloned());
            match token {
                Some(token) => request.next_token = Some(token),
                None => break,
            }
        }
        assert_eq!(seen, items);
    }

    #[test]
    fn impossible_pages_are_refused() {
        let page = |max: u64, ids| PageRequest { max_results: Some(max), next_token: None }.check(ids).unwrap_err();
        assert_eq!(page(2, None).code(), "InvalidParameterValue");
        assert_eq!(
            page(5, Some("volumeSet")).to_string(),
            "The parameter volumeSet cannot be used with the parameter maxResults"
        );
        let bad = PageRequest { max_results: None, next_token: Some("???".into()) };
        assert_eq!(bad.check(None), Err(Ec2Error::InvalidNextToken));
    }
}
