// What playwright's browser shows from the start: each call of the program has a browser of its own.
export default async ({ page }) => {
  await page.goto("data:text/html,<title>Trunkline</title><body style='background:teal'>");
};
