// Where the data of an endpoint's page is: below the page's own path where there are many endpoints,
// below /simulator/ where there is one.

const MANY = "/simulator/endpoints/";

export const ofMany = location.pathname.startsWith(MANY);

const BASE = ofMany ? location.pathname.replace(/[^/]*$/, "") : "/simulator/";

export function dataAt(name) {
  return BASE + name;
}
