"""Figures: drawn by matplotlib from numbers; a page shows them as inline SVG, a paper as PDF."""
