"use strict";
// Numbers and texts: nothing here knows of the page.

const range = (length) => Array.from({ length }, (_, index) => index);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;"); // for labels of plots
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const plural = (number, word, words = `${word}s`) => `${number} ${number === 1 ? word : words}`;

/** Undefined (null) in one value is undefined in the mean. */
function mean(values) {
  return values.includes(null) ? null : sum(values) / values.length;
}

/** Of the sample; 0 where there is none. */
function deviation(values) {
  const middle = mean(values);
  if (middle === null || values.length < 2) return 0;
  const squares = values.map((value) => (value - middle) ** 2);
  return Math.sqrt(sum(squares) / (values.length - 1));
}
