"""The product record that goes to the shop, field by field. This is the one file that a proposal may change."""

SKU = "PEN-01"
NAME = "Steel pen, waterproof"
PRICE = "199000"
STOCK = 12
